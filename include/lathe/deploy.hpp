#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lathe/export.hpp"
#include "lathe/progress.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// How a Kubernetes cluster is to serve the models.
struct ClusterRequest {
    std::string image;        ///< of the server's container, with tritonserver 23.10 or later
    std::string storage;      ///< where the cluster finds the models: pvc://CLAIM/FOLDER, s3://BUCKET/FOLDER, ...
    std::string service = {}; ///< its name, a label of DNS; empty: the first model's
    std::int64_t least_servers = 1;
    std::int64_t most_servers = 4;
    double queue_time_ms = 5; ///< more servers are started while requests wait for longer than this, on average
    /// Prometheus' address in the cluster, for KServe to scale by the time in the queue; empty: by the cores' load.
    std::string prometheus = {};
    std::int64_t memory_mib = 0; ///< of each server; 0: 1 GiB and three times the engines' size
};

/// A model as it was written into the repository.
struct DeployedModel {
    std::string name;
    std::filesystem::path folder; ///< of the model: config.pbtxt, 1/, client.py
    std::filesystem::path engine;
    std::string backend;                         ///< Triton's: "lathe", "onnxruntime", "openvino", "tensorrt"
    std::int64_t max_batch = 0;                  ///< samples; 0: the model has no open axis for them
    std::vector<std::int64_t> preferred_batches; ///< run without waiting for more
    std::int64_t max_queue_delay_us = 0;
    std::size_t instances = 1;
    bool gpu = false;
    std::size_t cores = 1; ///< that its instances keep busy
    std::size_t bytes = 0; ///< of the engine file
    bool sized = false;    ///< by measured latencies
    std::string reason;    ///< where the figures come from, a sentence
    /// Where Triton loads the plan in the engine file: the TensorRT that it is for, "TensorRT 10.16.0"; else empty.
    std::string plan_environment;
    bool generates = false;           ///< continues texts, one answer a token
    bool takes_texts = false;         ///< the backend cuts texts into tokens
    bool version_compatible = false;  ///< that plan also loads in later versions
    std::vector<std::string> notices; ///< what a user should know before relying on it
};

/// What `lathe deploy` does: engines become a model repository for NVIDIA Triton, with a KServe v2 client, and where a
/// cluster is described also Kubernetes' manifests.
struct DeployRequest {
    std::vector<std::filesystem::path> engines; ///< engine files, at least one
    /// The model repository, a folder that is made if needed. With `cluster`: a folder for the repository (models/),
    /// the backend (backends/) and the manifests.
    std::filesystem::path output;
    std::vector<std::string> names = {}; ///< of the models, in the engines' order; missing ones: the files' names
    /// JSON of `lathe bench` for these engines, at several batch sizes, to size by; empty: the engine's largest batch
    /// and one instance.
    std::filesystem::path bench = {};
    std::string slo = {};  ///< objective that one machine is to hold: "p99=20ms"; needs `rate` and `bench`
    std::string rate = {}; ///< requests of one sample that one machine gets: "300/s"
    /// "lathe" (this project's own, which runs the engine itself), "onnxruntime", "openvino", "tensorrt"; empty:
    /// openvino for engines of the CPU, tensorrt for TensorRT's, else lathe.
    std::string backend = {};
    std::filesystem::path plan = {}; ///< a TensorRT plan of the same graph; empty: the one in the engine
    /// Copy Lathe's backend with the libraries that it needs into FOLDER/lathe, for servers on other machines; empty:
    /// the server is pointed to where it is installed.
    std::filesystem::path copy_backend = {};
    std::int64_t max_queue = 0; ///< refuse requests once so many wait; 0: any number
    bool pictures = false;      ///< clients send JPEG or PNG files, which Lathe's backend decodes and preprocesses
    bool pixels = false;        ///< clients send decoded pictures, which Lathe's backend resizes and normalises
    bool texts = false;         ///< clients send texts, which Lathe's backend cuts into tokens
    /// The engines are decoders: clients send tokens or a text, which Lathe's backend continues, one answer a token.
    bool generate = false;
    std::filesystem::path prefill = {}; ///< with `generate`: reads prompts at once; empty: the decoder reads them
    std::size_t streams = 0;            ///< with `generate`: texts continued at once; 0: 8
    std::optional<ClusterRequest> cluster = {};              ///< absent: a model repository alone
    std::string command_line = {};                           ///< for the record
    Progress* progress = nullptr;                            ///< nullptr: silent
    std::function<void(const DeployedModel&)> deployed = {}; ///< called for each model once it is written
};

/// What each server of a cluster is given; first estimates.
struct ServerResources {
    std::size_t cores = 1;
    std::size_t memory_mib = 0;
    std::size_t gpus = 0;
};

struct DeployResult {
    std::filesystem::path repository;
    std::filesystem::path backend_directory; ///< what tritonserver's --backend-directory is to be; empty: its own
    std::vector<DeployedModel> models;
    std::vector<std::filesystem::path> manifests; ///< with `cluster`: inferenceservice.yaml first
    std::optional<ServerResources> server;        ///< likewise
    std::string document;                         ///< everything, as JSON text: what `lathe deploy --json` prints
};

/// Models are written one by one, each whole or not at all: after a failure those before it are there.
/// Errors: invalid_argument (no engine, names that Triton or Kubernetes cannot have, a model that exists already,
/// options that contradict each other), not_found (a file; Lathe's backend is not installed; an engine that `bench` has
/// not measured), parse_error, unsupported (an operator or type that the backend lacks; a plan that Triton does not
/// load), verification_failed (the objective cannot be met), io, cancelled.
LATHE_API Result<DeployResult> deploy(const DeployRequest& request);

} // namespace lathe
