"""Holds manifests of `lathe deploy kserve` against Kubernetes' published schemas, strictly: no field that is not there.

    check_manifests.py FILE.yaml...

Prints KIND NAME for each object. KServe publishes no schema to install; an InferenceService's predictor is a pod's
specification with KServe's own fields beside it, so these are checked here and the rest as a pod's. Objects that refer to
one another must agree. Exit 77 where a package is missing.
"""
import pathlib
import sys

try:
    import kubernetes_validate
    import yaml
except ImportError as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(77)

VERSION = "1.34"


def validate(document):
    kubernetes_validate.validate(document, VERSION, strict=True)


def check_inference_service(document):
    assert set(document) == {"apiVersion", "kind", "metadata", "spec"}, set(document)
    assert document["apiVersion"] == "serving.kserve.io/v1beta1"
    annotations = document["metadata"]["annotations"]
    assert annotations["serving.kserve.io/deploymentMode"] == "RawDeployment"
    scaler = annotations["serving.kserve.io/autoscalerClass"]
    assert set(document["spec"]) == {"predictor"}
    pod = dict(document["spec"]["predictor"])
    least, most = pod.pop("minReplicas"), pod.pop("maxReplicas")
    assert isinstance(least, int) and isinstance(most, int) and 1 <= least <= most
    if scaler == "hpa":
        assert pod.pop("scaleMetric") in ("cpu", "memory")
        assert 0 < pod.pop("scaleTarget") <= 100
    else:
        assert scaler == "keda"
        (metric,) = pod.pop("autoScaling")["metrics"]
        assert metric["type"] == "External" and set(metric["external"]) == {"metric", "target"}
        assert set(metric["external"]["metric"]) == {"backend", "serverAddress", "query"}
        assert metric["external"]["metric"]["backend"] == "prometheus"
        assert metric["external"]["target"]["type"] == "Value" and int(metric["external"]["target"]["value"]) > 0
    (server,) = pod["containers"]
    assert server["name"] == "kserve-container"  # by which KServe knows the one that answers
    assert {variable["name"] for variable in server["env"]} == {"STORAGE_URI"}
    ports_agree(server)
    validate({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "predictor"}, "spec": pod})


def ports_agree(server):
    arguments = dict(argument.split("=", 1) for argument in server["args"] if "=" in argument)
    listening = {int(value) for name, value in arguments.items() if name.endswith("-port")}
    named = {port["containerPort"] for port in server["ports"]}
    assert named <= listening, (named, listening)
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert server[probe]["httpGet"]["port"] == int(arguments["--http-port"])
    assert arguments["--model-repository"] == "/mnt/models/models"


def check_deployment(objects):
    deployment, service = objects["Deployment"], objects["Service"]
    scaler, budget = objects["HorizontalPodAutoscaler"], objects["PodDisruptionBudget"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for selector in (deployment["spec"]["selector"]["matchLabels"], service["spec"]["selector"],
                     budget["spec"]["selector"]["matchLabels"]):
        assert selector.items() <= labels.items()
    reference = scaler["spec"]["scaleTargetRef"]
    assert (reference["kind"], reference["name"]) == ("Deployment", deployment["metadata"]["name"])
    pod = deployment["spec"]["template"]["spec"]
    (server,) = pod["containers"]
    ports_agree(server)
    named = {port["name"] for port in server["ports"]}
    assert {port["targetPort"] for port in service["spec"]["ports"]} <= named
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in server["volumeMounts"]} == volumes
    assert "replicas" not in deployment["spec"]  # or each apply would undo what the autoscaler did


def check_rule(document, metric):
    (rule,) = document["rules"]["custom"]
    assert set(rule) == {"seriesQuery", "resources", "name", "metricsQuery"}
    assert rule["name"]["as"] == metric
    for word in ("<<.LabelMatchers>>", "<<.GroupBy>>"):
        assert rule["metricsQuery"].count(word) == 2
    assert rule["metricsQuery"].count("(") == rule["metricsQuery"].count(")")


def main(files):
    metric = None
    for file in map(pathlib.Path, files):
        documents = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
        if file.name == "queue-time-rule.yaml":
            check_rule(documents[0], metric)
            print("rule", metric)
            continue
        for document in documents:
            print(document["kind"], document["metadata"]["name"])
            if document["kind"] == "InferenceService":
                check_inference_service(document)
            else:
                validate(document)
        if file.name == "deployment.yaml":
            objects = {document["kind"]: document for document in documents}
            check_deployment(objects)
            metric = objects["HorizontalPodAutoscaler"]["spec"]["metrics"][0]["pods"]["metric"]["name"]


if __name__ == "__main__":
    main(sys.argv[1:])
