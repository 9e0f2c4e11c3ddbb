/**
 * Builds the pages' scripts and styles into web/static/dist: minified, with the content's hash in each name.
 *
 * `manifest.json` tells the built name of each asset; `licenses.txt` holds the licences of all packages that were
 * bundled. What the last build has made and this one has not stays beside it, and `earlier.json` names it: pages that are
 * open fetch some of it only when they need it. The folder is replaced as a whole, so that a build that fails leaves the
 * last one in place. `--watch` builds again at every change.
 */
import { build, context } from "esbuild";
import { existsSync } from "node:fs";
import { cp, mkdir, readFile, readdir, rename, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
const STATIC = join(HERE, "..", "static");
const DIST = join(STATIC, "dist");
const PART = join(STATIC, "dist.part");
const OLD = join(STATIC, "dist.old");
const FOR_TESTS = join(STATIC, "dist-test");
const LICENCE_FILE = /^(licen[cs]e|notice|copying)(\.\w+)?$/i;
const BANNER = "/*! Skipmap, Apache-2.0; licences of what is bundled: licenses.txt */";

const common = {
  absWorkingDir: HERE,
  outdir: PART,
  bundle: true,
  minify: true,
  metafile: true,
  write: false,
  legalComments: "none",
  banner: { js: BANNER, css: BANNER },
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  assetNames: "[name]-[hash]",
  // The first that know light-dark(), by which the two themes share their rules.
  target: ["chrome123", "firefox120", "safari17.5"],
  loader: { ".svg": "file", ".woff2": "file" },
  logLevel: "warning",
};
const builds = [
  // Charts are a module of their own, which app.js fetches on pages that have one.
  { ...common, entryPoints: ["src/app.js", "src/charts.js"], format: "esm", splitting: true },
  // Runs before the first paint, so it is a classic script.
  { ...common, entryPoints: ["src/theme.js"], format: "iife" },
  { ...common, entryPoints: ["src/styles/app.css"] },
];

/** Writes what all builds gave, then puts it in the place of the last build. */
async function publish(results) {
  await rm(PART, { recursive: true, force: true });
  await mkdir(PART, { recursive: true });
  const manifest = { "licenses.txt": "licenses.txt" };
  const packages = new Set();
  for (const result of results) {
    for (const file of result.outputFiles) await writeFile(file.path, file.contents);
    for (const [path, output] of Object.entries(result.metafile.outputs)) {
      // What only other assets name, such as a font or a shared part of two scripts, goes by its built name.
      manifest[basename(output.entryPoint ?? path)] = basename(path);
      for (const input of Object.keys(output.inputs)) packages.add(packageOf(input));
    }
  }
  packages.delete(undefined);
  await writeFile(join(PART, "licenses.txt"), await licences([...packages].sort()));
  const sorted = Object.fromEntries(Object.entries(manifest).sort());
  await writeFile(join(PART, "manifest.json"), JSON.stringify(sorted, null, 2) + "\n");
  await keepEarlier(Object.values(manifest));
  await rm(OLD, { recursive: true, force: true });
  if (existsSync(DIST)) await rename(DIST, OLD);
  await rename(PART, DIST);
  await rm(OLD, { recursive: true, force: true });
}

/** Copies what the last build made and this one did not; where both made the same, what that one had kept. */
async function keepEarlier(names) {
  const made = Object.values(await readNames("manifest.json")).filter((name) => !names.includes(name));
  const earlier = made.length ? made : Object.values(await readNames("earlier.json"));
  const kept = earlier.filter((name) => !names.includes(name) && existsSync(join(DIST, name)));
  for (const name of kept) await cp(join(DIST, name), join(PART, name));
  await writeFile(join(PART, "earlier.json"), JSON.stringify(kept.sort(), null, 2) + "\n");
}

/** What a list of the folder says; nothing where there is none. */
async function readNames(list) {
  const path = join(DIST, list);
  return existsSync(path) ? JSON.parse(await readFile(path, "utf8")) : {};
}

/** The package's name in a path such as node_modules/@scope/name/lib/x.js. */
function packageOf(path) {
  return path.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*node_modules\/)/)?.[1];
}

/** The licences of packages, whole, under their names and versions; one without any is an error. */
async function licences(packages) {
  const parts = [];
  for (const name of packages) {
    const folder = join(HERE, "node_modules", name);
    const { version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    const files = [...(await filesIn(folder)).filter((file) => LICENCE_FILE.test(basename(file)))];
    // Of what the package itself took from others.
    files.push(...(await filesIn(join(folder, "licenses"))));
    if (!files.length) throw new Error(`${name} has no licence file`);
    const texts = await Promise.all(files.map((file) => readFile(file, "utf8")));
    parts.push([`${name} ${version} (${license})`, ...texts.map((text) => text.trim())].join("\n\n"));
  }
  return parts.join(`\n\n${"-".repeat(80)}\n\n`) + "\n";
}

/** Paths of a folder's files; none where it is not there. */
async function filesIn(folder) {
  if (!existsSync(folder)) return [];
  const entries = await readdir(folder, { withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(folder, entry.name)).sort();
}

/** Copies what only the tests load; an installation without development packages has none of it. */
async function copyForTests() {
  const axe = join(HERE, "node_modules", "axe-core", "axe.min.js");
  if (!existsSync(axe)) return;
  await mkdir(FOR_TESTS, { recursive: true });
  await cp(axe, join(FOR_TESTS, "axe.min.js"));
}

/** Builds at every change: each context tells of its own, and all are published together. */
async function buildAtEveryChange(options) {
  let latest = [];
  let queue = Promise.resolve();
  const teller = (index) => ({
    name: "publish",
    setup(hooks) {
      hooks.onEnd((result) => {
        if (result.errors.length) return;
        latest[index] = result;
        if (Object.keys(latest).length < options.length) return;
        queue = queue.then(() => publish(latest)).then(() => console.log("Built."), console.error);
      });
    },
  });
  const contexts = options.map((each, index) => context({ ...each, plugins: [teller(index)] }));
  await Promise.all((await Promise.all(contexts)).map((each) => each.watch()));
}

try {
  if (process.argv.includes("--watch")) {
    await buildAtEveryChange(builds);
  } else {
    await publish(await Promise.all(builds.map((each) => build(each))));
  }
  await copyForTests();
} catch (error) {
  // esbuild has told its own errors already, with their lines.
  if (!error.errors) console.error(error);
  process.exit(1);
}
