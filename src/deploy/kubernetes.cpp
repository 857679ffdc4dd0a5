#include "deploy/kubernetes.hpp"

#include <string_view>

#include "deploy/yaml.hpp"
#include "support/files.hpp"
#include "support/json.hpp"

namespace lathe {

namespace {

constexpr int http_port = 8000;
constexpr int grpc_port = 8001;
constexpr int metrics_port = 8002;
constexpr int kserve_port = 8080;                 ///< where KServe sends requests
constexpr std::string_view mount = "/mnt/models"; ///< where KServe puts the storage
constexpr std::string_view claim_scheme = "pvc://";
constexpr std::string_view queue_metric = "triton_queue_us_per_request";

/// A label of DNS, as names of Services must be.
bool is_dns_label(std::string_view name) {
    constexpr std::size_t longest = 63;
    constexpr std::string_view inner = "abcdefghijklmnopqrstuvwxyz0123456789-";
    return !name.empty() && name.size() <= longest && name.find_first_not_of(inner) == std::string_view::npos &&
           name.front() >= 'a' && name.back() != '-';
}

bool is_claim(const ClusterService& service) { return service.storage.starts_with(claim_scheme); }

/// pvc://CLAIM/FOLDER
std::string claim_of(const ClusterService& service) {
    const std::string rest = service.storage.substr(claim_scheme.size());
    return rest.substr(0, rest.find('/'));
}
std::string folder_of(const ClusterService& service) {
    const std::string rest = service.storage.substr(claim_scheme.size());
    const std::size_t slash = rest.find('/');
    return slash == std::string::npos ? "" : rest.substr(slash + 1);
}

/// Microseconds in the queue a request, over the last minute, of the pods that `matchers` names.
std::string queue_query(const std::string& matchers, const std::string& grouping) {
    const auto rate = [&](const std::string& counter) {
        return "sum(rate(" + counter + "{" + matchers + "}[1m]))" + grouping;
    };
    // Without requests nothing waits: 0, not a division by zero.
    return rate("nv_inference_queue_duration_us") + " / clamp_min(" + rate("nv_inference_request_success") + ", 0.001)";
}

Json labels_of(const ClusterService& service) { return {{"app.kubernetes.io/name", service.name}}; }

Json probe(const std::string& path, int port, int period, int failures) {
    return {{"httpGet", {{"path", path}, {"port", port}}}, {"periodSeconds", period}, {"failureThreshold", failures}};
}

Json container(const ClusterService& service, const std::string& name, int port) {
    Json arguments = {"tritonserver",
                      "--model-repository=" + std::string(mount) + "/models",
                      "--http-port=" + std::to_string(port),
                      "--grpc-port=" + std::to_string(grpc_port),
                      "--metrics-port=" + std::to_string(metrics_port),
                      "--exit-timeout-secs=30"}; // requests that run are answered
    if (service.own_backend) arguments.push_back("--backend-directory=" + std::string(mount) + "/backends");
    Json requests = {{"cpu", std::to_string(service.cores)}, {"memory", std::to_string(service.memory_mib) + "Mi"}};
    // No limit of CPU time: it would stop threads in the middle of a run.
    Json limits = {{"memory", std::to_string(service.memory_mib) + "Mi"}};
    if (service.gpus > 0) limits["nvidia.com/gpu"] = requests["nvidia.com/gpu"] = std::to_string(service.gpus);
    return {{"name", name},
            {"image", service.image},
            {"args", std::move(arguments)},
            {"ports", Json::array({{{"containerPort", port}, {"name", "http1"}, {"protocol", "TCP"}}})},
            {"resources", {{"requests", std::move(requests)}, {"limits", std::move(limits)}}},
            // An engine of another machine is compiled when it is loaded: ten minutes.
            {"startupProbe", probe("/v2/health/ready", port, 5, 120)},
            {"readinessProbe", probe("/v2/health/ready", port, 5, 2)},
            {"livenessProbe", probe("/v2/health/live", port, 10, 6)}};
}

Json object(const std::string& version, const std::string& kind, const ClusterService& service) {
    return {{"apiVersion", version},
            {"kind", kind},
            {"metadata", {{"name", service.name}, {"labels", labels_of(service)}}}};
}

Json deployment(const ClusterService& service) {
    Json made = object("apps/v1", "Deployment", service);
    Json server = container(service, "triton", http_port);
    server["ports"].push_back({{"containerPort", grpc_port}, {"name", "grpc"}, {"protocol", "TCP"}});
    server["ports"].push_back({{"containerPort", metrics_port}, {"name", "metrics"}, {"protocol", "TCP"}});
    server["volumeMounts"] = Json::array({{{"name", "models"}, {"mountPath", mount}, {"readOnly", true}}});
    if (const std::string folder = folder_of(service); !folder.empty()) server["volumeMounts"][0]["subPath"] = folder;
    // The service forgets a pod that ends before the server does.
    server["lifecycle"] = {{"preStop", {{"exec", {{"command", {"sleep", "5"}}}}}}};
    made["spec"] = {
        {"selector", {{"matchLabels", labels_of(service)}}},
        {"strategy", {{"type", "RollingUpdate"}, {"rollingUpdate", {{"maxUnavailable", 0}, {"maxSurge", 1}}}}},
        {"template",
         {{"metadata",
           {{"labels", labels_of(service)},
            {"annotations",
             {{"prometheus.io/scrape", "true"},
              {"prometheus.io/port", std::to_string(metrics_port)},
              {"prometheus.io/path", "/metrics"}}}}},
          {"spec",
           {{"terminationGracePeriodSeconds", 60},
            {"containers", Json::array({std::move(server)})},
            {"volumes",
             Json::array({{{"name", "models"},
                           {"persistentVolumeClaim", {{"claimName", claim_of(service)}, {"readOnly", true}}}}})}}}}}};
    return made;
}

Json network_service(const ClusterService& service) {
    Json made = object("v1", "Service", service);
    Json ports = Json::array();
    for (const auto& [name, port] : {std::pair("http1", http_port), std::pair("grpc", grpc_port)})
        ports.push_back({{"name", name}, {"port", port}, {"targetPort", name}, {"protocol", "TCP"}});
    made["spec"] = {{"selector", labels_of(service)}, {"ports", std::move(ports)}};
    return made;
}

Json autoscaler(const ClusterService& service) {
    Json made = object("autoscaling/v2", "HorizontalPodAutoscaler", service);
    made["spec"] = {
        {"scaleTargetRef", {{"apiVersion", "apps/v1"}, {"kind", "Deployment"}, {"name", service.name}}},
        {"minReplicas", service.least},
        {"maxReplicas", service.most},
        {"metrics",
         Json::array(
             {{{"type", "Pods"},
               {"pods",
                {{"metric", {{"name", queue_metric}}},
                 {"target", {{"type", "AverageValue"}, {"averageValue", std::to_string(service.queue_time_us)}}}}}}})},
        // Loading an engine takes seconds to minutes: a short lull is no reason to end a server.
        {"behavior", {{"scaleDown", {{"stabilizationWindowSeconds", 300}}}}}};
    return made;
}

Json disruption_budget(const ClusterService& service) {
    Json made = object("policy/v1", "PodDisruptionBudget", service);
    made["spec"] = {{"maxUnavailable", 1}, {"selector", {{"matchLabels", labels_of(service)}}}};
    return made;
}

} // namespace

Result<void> check(const ClusterService& service) {
    const auto refuse = [](std::string message, std::string where, std::string hint) {
        return Error{ErrorCode::invalid_argument, std::move(message), std::move(where), std::move(hint)};
    };
    if (!is_dns_label(service.name)) {
        return refuse("Kubernetes does not take this name", service.name,
                      "up to 63 lower-case letters, digits and hyphens, a letter first");
    }
    if (service.image.empty()) return refuse("no image of the server", "--image", "name one that holds tritonserver");
    const std::size_t scheme = service.storage.find("://");
    if (scheme == std::string::npos || scheme == 0 || scheme + 3 == service.storage.size() ||
        (is_claim(service) && !is_dns_label(claim_of(service)))) {
        return refuse("this is no place where a cluster finds the models", service.storage,
                      "pvc://CLAIM/FOLDER, s3://BUCKET/FOLDER or another URI that KServe takes");
    }
    if (service.least < 1 || service.most < service.least)
        return refuse("the least and the largest number of servers contradict each other",
                      std::to_string(service.least) + ".." + std::to_string(service.most), "such as 1..8");
    return {};
}

std::string inference_service(const ClusterService& service) {
    Json made = object("serving.kserve.io/v1beta1", "InferenceService", service);
    made["metadata"]["annotations"] = {
        {"serving.kserve.io/deploymentMode", "RawDeployment"},
        {"serving.kserve.io/autoscalerClass", service.prometheus.empty() ? "hpa" : "keda"}};
    Json server = container(service, "kserve-container", kserve_port);
    // KServe's storage initialiser puts it where the arguments say.
    server["env"] = Json::array({{{"name", "STORAGE_URI"}, {"value", service.storage}}});
    Json predictor = {{"minReplicas", service.least}, {"maxReplicas", service.most}};
    if (service.prometheus.empty()) {
        predictor["scaleMetric"] = "cpu";
        predictor["scaleTarget"] = 70;
    } else {
        const std::string query = queue_query("pod=~\"" + service.name + "-predictor-.*\"", "");
        predictor["autoScaling"] = {
            {"metrics",
             Json::array(
                 {{{"type", "External"},
                   {"external",
                    {{"metric", {{"backend", "prometheus"}, {"serverAddress", service.prometheus}, {"query", query}}},
                     {"target", {{"type", "Value"}, {"value", std::to_string(service.queue_time_us)}}}}}}})}};
    }
    predictor["terminationGracePeriodSeconds"] = 60;
    predictor["containers"] = Json::array({std::move(server)});
    made["spec"] = {{"predictor", std::move(predictor)}};
    return to_yaml(made);
}

std::string plain_manifests(const ClusterService& service) {
    std::string text;
    for (const Json& made :
         {deployment(service), network_service(service), autoscaler(service), disruption_budget(service)})
        text += (text.empty() ? "" : "---\n") + to_yaml(made);
    return text;
}

std::string queue_time_rule() {
    const Json rule = {
        {"seriesQuery", "nv_inference_queue_duration_us{namespace!=\"\",pod!=\"\"}"},
        {"resources", {{"overrides", {{"namespace", {{"resource", "namespace"}}}, {"pod", {{"resource", "pod"}}}}}}},
        {"name", {{"as", queue_metric}}},
        {"metricsQuery", queue_query("<<.LabelMatchers>>", " by (<<.GroupBy>>)")}};
    Json rules;
    rules["rules"]["custom"] = Json::array({rule});
    return to_yaml(rules);
}

Result<std::vector<std::string>> write_manifests(const ClusterService& service, const std::filesystem::path& folder) {
    LATHE_CHECK(check(service));
    const std::string filled = service.own_backend ? " filled from models/ and backends/" : " filled from models/";
    std::vector<std::pair<std::string, std::string>> files;
    files.emplace_back("inferenceservice.yaml", "# With KServe: kubectl apply -f inferenceservice.yaml, the storage" +
                                                    filled + "\n" + inference_service(service));
    if (is_claim(service)) {
        files.emplace_back("deployment.yaml", "# Without KServe: kubectl apply -f deployment.yaml, the claim" + filled +
                                                  "\n" + plain_manifests(service));
        files.emplace_back("queue-time-rule.yaml", "# Values of the Helm chart prometheus-adapter: the metric that "
                                                   "deployment.yaml scales by\n" +
                                                       queue_time_rule());
    }
    std::vector<std::string> names;
    for (const auto& [name, text] : files) {
        LATHE_CHECK(write_file(folder / name, text));
        names.push_back(name);
    }
    return names;
}

} // namespace lathe
