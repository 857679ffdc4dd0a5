#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lathe/result.hpp"

namespace lathe {

/// How a model repository is to be served in a cluster. The repository lies in the folder `models` of a volume, and
/// where it needs Lathe's backend that in `backends` beside it.
struct ClusterService {
    std::string name;    ///< of all objects
    std::string image;   ///< of the server
    std::string storage; ///< KServe's URI of the volume: pvc://CLAIM/FOLDER, s3://..., gs://...
    bool own_backend = false;
    std::size_t cores = 1; ///< of each server
    std::size_t gpus = 0;
    std::size_t memory_mib = 1024;
    std::int64_t least = 1; ///< servers
    std::int64_t most = 1;
    std::int64_t queue_time_us = 5000; ///< more servers are started while requests wait for longer, on average
    std::string prometheus;            ///< where KServe's autoscaler asks for it; empty: it scales by the cores' load
};

/// Errors: invalid_argument for what Kubernetes would refuse: a name that is no label of DNS, a storage that is no URI,
/// no servers.
Result<void> check(const ClusterService& service);

/// An InferenceService of KServe, in its mode of plain deployments.
std::string inference_service(const ClusterService& service);
/// The same without KServe: Deployment, Service, HorizontalPodAutoscaler, PodDisruptionBudget. The volume must be a
/// claim (pvc://). The autoscaler reads a metric that `queue_time_rule` defines.
std::string plain_manifests(const ClusterService& service);
/// For prometheus-adapter: the mean time in the queue as a metric of pods.
std::string queue_time_rule();

/// Makes inferenceservice.yaml and, for a claim, deployment.yaml and queue-time-rule.yaml in the folder, or replaces
/// them; their names. Errors: as check; io.
Result<std::vector<std::string>> write_manifests(const ClusterService& service, const std::filesystem::path& folder);

} // namespace lathe
