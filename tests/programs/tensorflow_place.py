# tests: what TensorFlow itself makes of this process's TF_CONFIG, as one line of JSON, and then a script of others.
import json
import runpy
import sys

import tensorflow as tf
from tensorflow.python.distribute import multi_worker_util as util

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
place = resolver.cluster_spec(), resolver.task_type, resolver.task_id
print("TensorFlow says " + json.dumps({
    "task": {"type": resolver.task_type, "index": resolver.task_id},
    "is_chief": util.is_chief(*place),
    "rank": None if resolver.task_type == "ps" else util.id_in_cluster(*place),  # it has none
    "num_trainers": None if resolver.task_type in ("ps", "evaluator") else util.worker_count(place[0], place[1]),
}), flush=True)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
