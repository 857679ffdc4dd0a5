#pragma once

#include <cstdint>
#include <string>

#include "cli/commands.hpp"
#include "lathe/deploy.hpp"

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

/// Whether any of them was given another value than the usual one.
bool asks_for_a_cluster(const KserveOptions& options);
/// Errors: invalid_argument (--servers in another form).
Result<ClusterRequest> cluster_request(const KserveOptions& options);

/// What to do with the manifests that were written.
void print_cluster(const DeployResult& result, const DeployRequest& request, const Context& context);

} // namespace lathe::cli
