import json,time
from skipmap.profiling.job import check_job, open_job
from skipmap.profiling.result import build_result, without_prompts
from skipmap.profiling.run import run_job
from skipmap.profiling.store import RunFolder
def test_x(make_spec, calibration, tmp_path):
  for kind in ("gemma","llama"):
    t=time.time()
    spec=make_spec(calibration(kind),kind)
    n=[]
    job=open_job(check_job(spec),hook=n.append)
    print(time.time()-t)
    t=time.time()
    r=build_result(run_job(job,RunFolder(tmp_path/kind,job.content_key)))
    print(time.time()-t,len(n))
    for e in [r['dense'],*r['evaluations']]: print({k:v for k,v in e.items() if k not in('per_prompt','evaluator')})
    print({k:v for k,v in without_prompts(r).items() if k not in ('evaluations','dense','spec')})
