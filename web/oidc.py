"""Sign-in at an OpenID Connect provider: authorization code with PKCE, state and nonce, and a verified ID token."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from typing import Any, cast

import httpx2
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.httpx_client import OAuth2Client
from authlib.oidc.core import CodeIDToken
from flask import current_app
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jws import JWSRegistry
from pydantic import SecretStr

from models.roles import ROLES, Role
from skipmap.errors import InvalidInput, NotFound
from web.guard import web_settings
from web.issuer import Description, Issuer, OidcFailed, ProviderAway, shown
from web.settings import WebSettings

_NAME = "skipmap-oidc"
_SCOPE = "openid profile email"
_ALGORITHMS = [*(f"{family}{bits}" for family in ("RS", "PS", "ES") for bits in (256, 384, 512)), "EdDSA"]
"""Those with a private key: who verifies must not be able to sign."""
_LEEWAY_SECONDS = 60
_NAME_CHARACTERS = 100
_NAME_CLAIMS = ("preferred_username", "email", "name")


@dataclass(frozen=True)
class Attempt:
    """A sign-in on its way, as the browser's signed cookie keeps it."""

    state: str
    nonce: str
    verifier: str


@dataclass(frozen=True)
class Identity:
    """Who the provider says it is: under ``subject`` for ever, and by names that may change, best first."""

    subject: str
    names: tuple[str, ...]


class Provider:
    """The provider of the settings, and what it knows this service by."""

    def __init__(self, issuer: str, client_id: str, client_secret: SecretStr | None, name: str) -> None:
        self._issuer = Issuer(issuer, name)
        self._client_id, self._secret = client_id, client_secret

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return self._issuer.name

    def begin(self, return_address: str) -> tuple[str, Attempt]:
        """Where to send the browser, and what to keep until it is back at the return address."""
        about = self._issuer.description()
        attempt = Attempt(*(secrets.token_urlsafe(32) for _ in range(3)))
        with self._client(about, return_address) as client:
            address, _ = client.create_authorization_url(
                about.authorization,
                state=attempt.state,
                nonce=attempt.nonce,
                code_verifier=attempt.verifier,
            )
        return cast(str, address), attempt

    def finish(self, return_address: str, attempt: Attempt, answer: dict[str, str]) -> Identity:
        """Who came back with this answer; raises OidcFailed."""
        about = self._issuer.description()
        if not hmac.compare_digest(answer.get("state", "").encode(), attempt.state.encode()):
            raise OidcFailed("this sign-in was not begun in this browser")
        if "iss" in answer and answer["iss"].rstrip("/") != self._issuer.address:
            raise OidcFailed("the answer comes from another provider than the one that was asked")
        if "error" in answer:
            raise OidcFailed(f"{self.name} says: {shown(answer.get('error_description') or answer['error'])}")
        if not answer.get("code"):
            raise OidcFailed("the answer holds no code")
        with self._issuer.within_deadline():
            token = self._exchange(about, return_address, attempt, answer["code"])
            claims = self._verified(about, token, attempt.nonce)
            names = _names(claims) or self._names_asked_for(about, token, str(claims["sub"]))
        return Identity(identity(self._issuer.address, str(claims["sub"])), names)

    def _exchange(
        self, about: Description, return_address: str, attempt: Attempt, code: str
    ) -> dict[str, Any]:
        try:
            with self._client(about, return_address) as client:
                token = client.fetch_token(about.token, code=code, code_verifier=attempt.verifier)
        except httpx2.HTTPError:
            raise ProviderAway(f"{self.name} does not answer; try again later") from None
        except AuthlibBaseError as error:
            # Its description is the provider's own, and may hold what was sent to it.
            raise OidcFailed(
                f"{self.name} does not take the code ({shown(error.error)}); begin again"
            ) from None
        except ValueError:
            raise ProviderAway(f"{self.name} gave an answer that is no token; try again later") from None
        if not isinstance(token, dict) or not isinstance(token.get("id_token"), str):
            raise OidcFailed(f"{self.name} gave no ID token; is it an OpenID Connect provider?")
        return cast(dict[str, Any], token)

    def _verified(self, about: Description, token: dict[str, Any], nonce: str) -> dict[str, Any]:
        registry = JWSRegistry(algorithms=_ALGORITHMS, strict_check_header=False)
        try:
            try:
                decoded = jwt.decode(token["id_token"], self._issuer.key_set(about), registry=registry)
            except InvalidKeyIdError:
                decoded = jwt.decode(
                    token["id_token"], self._issuer.key_set(about, anew=True), registry=registry
                )
            claims = CodeIDToken(
                decoded.claims,
                decoded.header,
                {
                    "iss": {"essential": True, "value": about.issuer},
                    "aud": {"essential": True, "value": self._client_id},
                    "sub": {"essential": True},
                    "nonce": {"essential": True, "value": nonce},
                },
                {
                    "nonce": nonce,
                    "client_id": self._client_id,
                    "access_token": token.get("access_token"),
                },
            )
            claims.validate(leeway=_LEEWAY_SECONDS)
        except (JoseError, AuthlibBaseError, ValueError, TypeError, KeyError) as error:
            reason = shown(getattr(error, "description", None) or type(error).__name__)
            raise OidcFailed(f"the ID token cannot be trusted ({reason}); begin again") from None
        if not isinstance(claims["sub"], str) or not claims["sub"]:
            raise OidcFailed("the ID token names nobody")
        return dict(claims)

    def _names_asked_for(self, about: Description, token: dict[str, Any], subject: str) -> tuple[str, ...]:
        """Many providers keep names out of their ID tokens."""
        if about.userinfo is None or not isinstance(token.get("access_token"), str):
            return ()
        headers = {"Authorization": f"Bearer {token['access_token']}"}
        try:
            found = self._issuer.get(about.userinfo, headers)
        except ProviderAway:
            # Who it is, is known; a name can be made.
            return ()
        return _names(found) if found.get("sub") == subject else ()

    def _client(self, about: Description, return_address: str) -> OAuth2Client:
        secret = None if self._secret is None else self._secret.get_secret_value()
        method = "none" if secret is None else f"client_secret_{'basic' if about.takes_basic else 'post'}"
        return OAuth2Client(
            client_id=self._client_id,
            client_secret=secret,
            token_endpoint_auth_method=method,
            scope=_SCOPE,
            redirect_uri=return_address,
            code_challenge_method="S256",
            **self._issuer.client_options,
        )


def make_provider(settings: WebSettings) -> Provider | None:
    """The provider of the settings, None when there is none; raises InvalidInput naming the variable."""
    if settings.oidc_issuer is None:
        return None
    if settings.oidc_client_id is None:
        raise InvalidInput("SKIPMAP_OIDC_CLIENT_ID", "not set; SKIPMAP_OIDC_ISSUER needs it")
    first_role(settings)
    return Provider(
        settings.oidc_issuer, settings.oidc_client_id, settings.oidc_client_secret, settings.oidc_name
    )


def current_provider() -> Provider:
    """The provider of the running app; raises NotFound when none is set up."""
    extensions = current_app.extensions
    if _NAME not in extensions:
        extensions.setdefault(_NAME, make_provider(web_settings()))
    found = cast("Provider | None", extensions[_NAME])
    if found is None:
        raise NotFound("no provider to sign in at is set up here; use a password or an access token")
    return found


def first_role(settings: WebSettings) -> Role | None:
    """The role of people who sign in for the first time; None: they are refused. Raises InvalidInput."""
    role = settings.oidc_default_role
    if role is None:
        return None
    if role not in ROLES:
        raise InvalidInput("SKIPMAP_OIDC_DEFAULT_ROLE", f"{role!r} given; allowed are {', '.join(ROLES)}")
    return role


def identity(issuer: str, subject: str) -> str:
    """How a subject is stored: another provider may give the same one to somebody else."""
    return f"{issuer.rstrip('/')} {subject}"


def _names(claims: dict[str, Any]) -> tuple[str, ...]:
    # What does not print could make one name look like another.
    printed = [
        "".join(c for c in str(claims.get(claim) or "") if c.isprintable()).strip() for claim in _NAME_CLAIMS
    ]
    return tuple(name[:_NAME_CHARACTERS] for name in printed if name)
