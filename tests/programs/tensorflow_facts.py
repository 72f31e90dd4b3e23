# tests: what real TensorFlow makes of TF_CONFIGs: one JSON text a line on standard input (a string), one line of JSON
# each on standard output, as programs/tf_config_facts.cc prints them.
import json
import os
import sys

from tensorflow.python.distribute import multi_worker_util
from tensorflow.python.distribute.cluster_resolver.tfconfig_cluster_resolver import TFConfigClusterResolver


def facts(text):
    os.environ["TF_CONFIG"] = text
    resolver = TFConfigClusterResolver()
    spec = resolver.cluster_spec()
    if not spec.as_dict():
        return {"alone": True}
    kind, index = resolver.task_type, resolver.task_id
    if kind is None or index is None:
        raise ValueError("what MultiWorkerMirroredStrategy says of a cluster without a task")
    leader = multi_worker_util.collective_leader(spec, kind, index)
    found = {"alone": False, "task": f"{kind}:{index}", "jobs": {job: tasks for job, tasks in spec.as_dict().items() if tasks},
             "is_chief": multi_worker_util.is_chief(spec, kind, index),
             "leader": leader.replace("/job:", "").replace("/replica:0/task", "")}
    if kind != "ps":
        found["rank"] = multi_worker_util.id_in_cluster(spec, kind, index)
        found["count"] = multi_worker_util.worker_count(spec, kind)
    return found


for line in sys.stdin:
    try:
        result = dict(facts(json.loads(line)), ok=True)
    except Exception as error:  # whatever it is, it does not start
        result = {"ok": False, "error": type(error).__name__}
    print("FACTS", json.dumps(result))
