#include "cli/kserve.hpp"

#include <charconv>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "cli/numbers.hpp"

namespace lathe::cli {

namespace {

/// "2..8", or one number for both.
Result<std::pair<std::int64_t, std::int64_t>> parse_servers(const std::string& text) {
    const auto number = [](std::string_view part) -> std::int64_t {
        std::int64_t value = 0;
        const auto [end, failed] = std::from_chars(part.data(), part.data() + part.size(), value);
        return failed == std::errc() && end == part.data() + part.size() ? value : 0;
    };
    const std::size_t dots = text.find("..");
    const std::string_view all = text;
    const std::int64_t least = number(all.substr(0, dots));
    const std::int64_t most = dots == std::string::npos ? least : number(all.substr(dots + 2));
    if (least >= 1 && most >= least) return std::pair(least, most);
    return Error{ErrorCode::invalid_argument, "this is no number of servers", "--servers " + text, "such as 1..8"};
}

} // namespace

void add_kserve_options(CLI::App& command, KserveOptions& options) {
    constexpr const char* group = "For kserve";
    command.add_option("--image", options.image, "The server's container image, with tritonserver 23.10 or later")
        ->group(group);
    command
        .add_option("--storage", options.storage,
                    "Where the cluster finds the models: pvc://CLAIM/FOLDER, s3://BUCKET/FOLDER, ...")
        ->type_name("URI")
        ->group(group);
    command.add_option("--service", options.service, "The service's name (default: the first model's)")->group(group);
    command.add_option("--servers", options.servers, "Servers at least and at most (default: 1..4)")
        ->type_name("N..M")
        ->group(group);
    command
        .add_option("--queue-time-ms", options.queue_time_ms,
                    "Start another server while requests wait for longer than this, on average (default: 5)")
        ->check(positive_number())
        ->group(group);
    command
        .add_option(
            "--prometheus", options.prometheus,
            "Prometheus' address in the cluster, for KServe to scale by the time in the queue (by KEDA); without "
            "it KServe scales by the load of the cores")
        ->type_name("URL")
        ->group(group);
    command
        .add_option("--memory-mib", options.memory_mib,
                    "Memory of each server (default: 1 GiB and three times the engines' size)")
        ->check(positive_number())
        ->group(group);
}

bool asks_for_a_cluster(const KserveOptions& options) {
    const KserveOptions usual;
    return !(options.image + options.storage + options.service + options.prometheus).empty() ||
           options.servers != usual.servers || options.queue_time_ms != usual.queue_time_ms ||
           options.memory_mib != usual.memory_mib;
}

Result<ClusterRequest> cluster_request(const KserveOptions& options) {
    ClusterRequest request;
    request.image = options.image;
    request.storage = options.storage;
    request.service = options.service;
    LATHE_TRY(const auto servers, parse_servers(options.servers));
    request.least_servers = servers.first;
    request.most_servers = servers.second;
    request.queue_time_ms = options.queue_time_ms;
    request.prometheus = options.prometheus;
    request.memory_mib = options.memory_mib;
    return request;
}

void print_cluster(const DeployResult& result, const DeployRequest& request, const Context& context) {
    const std::filesystem::path& folder = request.output;
    context.print("copy " + result.repository.string() +
                  (result.backend_directory.empty() ? "" : " and " + result.backend_directory.string()) + " to " +
                  request.cluster->storage + ", then: kubectl apply -f " + (folder / "inferenceservice.yaml").string());
    if (result.manifests.size() > 1)
        context.print("without KServe: kubectl apply -f " + (folder / "deployment.yaml").string() +
                      ", with the metric of queue-time-rule.yaml");
    const ServerResources server = result.server.value_or(ServerResources{});
    context.print("  " + std::to_string(server.cores) + (server.cores == 1 ? " core" : " cores") + " and " +
                  std::to_string(server.memory_mib) + " MiB a server" + (server.gpus > 0 ? ", with a GPU" : "") +
                  ": first estimates, to be corrected by what a server takes under load");
}

} // namespace lathe::cli
