#pragma once

#include <filesystem>
#include <string>

#include "cli/commands.hpp"
#include "deploy/kubernetes.hpp"
#include "support/json.hpp"

namespace lathe::cli {

/// What `lathe deploy kserve` wants to know beside what a model repository needs.
struct KserveOptions {
    std::string service; ///< empty: the first model's name
    std::string image;
    std::string storage;
    std::string servers = "1..4";
    double queue_time_ms = 5;
    std::string prometheus;
    std::int64_t memory_mib = 0; ///< 0: by the engines' size
};

void add_kserve_options(CLI::App& command, KserveOptions& options);

/// The service for the models that `lathe deploy` wrote or will write (its JSON of each). Errors: invalid_argument.
Result<ClusterService> cluster_service(const KserveOptions& options, const std::string& first_model,
                                       const Json& models);

/// Writes the manifests beside the repository, says what to do with them, and gives their names.
Result<Json> deploy_to_cluster(const ClusterService& service, const std::filesystem::path& folder,
                               const Context& context);

} // namespace lathe::cli
