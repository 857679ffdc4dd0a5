#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lathe/evaluate.hpp"
#include "lathe/export.hpp"
#include "lathe/progress.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// What `lathe sensitivity` does: quantise one layer at a time, the others in FP32, and see what becomes of the output.
struct SensitivityRequest {
    std::filesystem::path model;          ///< ONNX in floating point
    std::filesystem::path data;           ///< to judge on, best labelled; as Data::path
    std::filesystem::path calibrate = {}; ///< to calibrate on; empty: `data`
    std::filesystem::path ranges = {};    ///< of `lathe calibrate`, instead of calibrating
    std::string columns = {};             ///< of text files, as Data::columns
    std::string preprocess = {};          ///< instead of the model's own: see CalibrationOptions
    std::string method = "mse";           ///< of the ranges: minmax, percentile, entropy, mse
    std::size_t calibrate_samples = 300;  ///< 0: all
    std::size_t samples = 500;            ///< to judge on; 0: all
    std::size_t length = 128;             ///< tokens a sample, of texts
    std::size_t threads = 0;              ///< 0: all cores
    /// To rank by: sqnr, kl, agreement, top1, task. Empty: the task's metric where `task` names one, or the data's
    /// truth or the outputs tell one; else sqnr.
    std::string metric = {};
    std::string target = "openvino"; ///< quantise as this runtime wants it: openvino, onnxruntime, tensorrt, cuda
    std::size_t batch_size = 0;      ///< samples at once, where that is open; 0: one a core
    std::string output_name = {};    ///< of the output to judge; empty: all in float that end the network
    TaskOptions task = {};           ///< what the model is for, and how its answers and their truth are read
    /// JSON to write; FILE.part beside it keeps what is done, so that the same call goes on. Empty: none.
    std::filesystem::path output = {};
    bool force = false;            ///< begin anew, whatever FILE.part holds
    std::string command_line = {}; ///< for the record
    Progress* progress = nullptr;  ///< nullptr: silent
};

/// A layer quantised alone, or one that stays in float.
struct SensitiveLayer {
    std::string node;
    std::string op;
    std::string role;   ///< for people: "first convolution", "classifier", ...
    std::string reason; ///< why it stays in float, and then has no figures; empty where it is quantised
    std::int64_t macs = 0;
    double sqnr_db = 0;                   ///< of the output; infinite: no noise
    double mean_kl = 0;                   ///< nats
    double agreement = 0;                 ///< share of samples with the same likeliest class
    std::optional<double> top1_delta;     ///< share of right answers, against the float model; absent without labels
    std::optional<double> task_delta;     ///< of the task's metric, against the float model; absent where none judged
    std::optional<double> task_agreement; ///< the metric against the float model's own answers, 1: the same
    double damage_share = 0;              ///< of the damage of all layers together, by the metric
    double macs_share = 0;                ///< of the multiply-accumulates of all layers
};

struct SensitivityResult {
    std::vector<SensitiveLayer> layers;   ///< most harmful first, those that stay in float last
    std::vector<std::string> outstanding; ///< names of the layers that do most of the damage
    std::vector<std::string> advice;      ///< what to do, in sentences
    std::vector<std::string> notices;     ///< what preparing the model met
    std::size_t samples = 0;
    std::size_t resumed_samples = 0; ///< of them, of an earlier run
    double seconds = 0;
    std::string document; ///< everything, as JSON text: what `lathe sensitivity --json` prints
};

/// Errors: not_found, invalid_argument (a method, metric, target or task of another name, top1 without
/// labels, nothing to find in the samples), unsupported (a task that cannot judge layers), what
/// simplifying, calibrating and the data give, io, cancelled (the same call goes on from there).
LATHE_API Result<SensitivityResult> sensitivity(const SensitivityRequest& request);

} // namespace lathe
