#include "cli/kserve.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

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

Result<ClusterService> cluster_service(const KserveOptions& options, const std::string& first_model,
                                       const Json& models) {
    ClusterService service;
    service.name = options.service.empty() ? first_model : options.service;
    service.image = options.image;
    service.storage = options.storage;
    service.prometheus = options.prometheus;
    if (!(options.queue_time_ms >= 0.001 && options.queue_time_ms <= 3.6e6))
        return Error{ErrorCode::invalid_argument, "requests wait a microsecond at least and an hour at most",
                     "--queue-time-ms", "10 is usual"};
    service.queue_time_us = std::llround(options.queue_time_ms * 1000);
    LATHE_TRY(const auto servers, parse_servers(options.servers));
    service.least = servers.first;
    service.most = servers.second;
    std::size_t bytes = 0;
    std::size_t cores = 0;
    for (const Json& model : models) {
        service.own_backend = service.own_backend || model["backend"] == "lathe";
        service.gpus = std::max<std::size_t>(service.gpus, model["gpu"].get<bool>() ? 1 : 0);
        cores += model["cores"].get<std::size_t>();
        bytes += model["bytes"].get<std::size_t>();
    }
    service.cores = std::max<std::size_t>(1, cores);
    service.memory_mib =
        options.memory_mib > 0 ? static_cast<std::size_t>(options.memory_mib) : 1024 + 3 * (bytes >> 20U);
    LATHE_CHECK(check(service));
    return service;
}

Result<Json> deploy_to_cluster(const ClusterService& service, const std::filesystem::path& folder,
                               const Context& context) {
    LATHE_TRY(const std::vector<std::string> files, write_manifests(service, folder));
    Json names = Json::array();
    for (const std::string& file : files)
        names.push_back((folder / file).string());
    context.print("copy " + (folder / "models").string() +
                  (service.own_backend ? " and " + (folder / "backends").string() : "") + " to " + service.storage +
                  ", then: kubectl apply -f " + (folder / "inferenceservice.yaml").string());
    if (files.size() > 1)
        context.print("without KServe: kubectl apply -f " + (folder / "deployment.yaml").string() +
                      ", with the metric of queue-time-rule.yaml");
    context.print("  " + std::to_string(service.cores) + (service.cores == 1 ? " core" : " cores") + " and " +
                  std::to_string(service.memory_mib) + " MiB a server" + (service.gpus > 0 ? ", with a GPU" : "") +
                  ": first estimates, to be corrected by what a server takes under load");
    return names;
}

} // namespace lathe::cli
