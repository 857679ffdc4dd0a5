#include "bench/trtexec_remarks.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "bench/statistics.hpp"

namespace lathe {
namespace {

/// trtexec measures for 3 s unless told otherwise.
constexpr double least_seconds = 2.99;

struct Rule {
    std::string_view contains; ///< in the warning
    const char* name;
    const char* text; ///< empty: the warning itself
};

constexpr std::array rules{
    Rule{"may be bound by Enqueue Time", "bound_by_enqueue",
         "the host needs longer to enqueue than 0.8 of what the GPU computes: throughput may be the host's. A CUDA "
         "graph "
         "helps"},
    Rule{"may be bound by host-to-device transfers", "bound_by_copy_in",
         "copying inputs takes longer than computing: throughput may be that of the copies"},
    Rule{"may be bound by device-to-host transfers", "bound_by_copy_out",
         "copying outputs takes longer than computing: throughput may be that of the copies"},
    Rule{"GPU compute time is unstable", "unstable", ""},
    Rule{"Multiple inference streams are used", "several_streams",
         "several streams ran at once: latencies include waiting for each other, only throughput tells"},
    Rule{"across different models of devices", "engine_of_another_gpu",
         "the engine was built on another model of GPU, which costs speed or correctness: build it here"},
    Rule{"--useCudaGraph flag has been ignored", "no_cuda_graph",
         "the CUDA graph that was asked for could not be captured: this is without"},
    Rule{"CUDA graph capture failed", "no_cuda_graph",
         "the CUDA graph that was asked for could not be captured: this is without"},
    Rule{"Missing scale and zero-point", "no_int8_scale",
         "tensors without int8 scale: their layers run in higher precision although INT8 was asked for"},
    Rule{"Calibrator is not being used", "no_calibrator",
         "no calibrator: int8 ranges must have been set by hand, else they mean nothing"},
    Rule{"Subnormal FP16 values", "fp16_subnormal", "weights become subnormal in FP16: check the accuracy"},
    Rule{"subnormal", "fp16_subnormal", "weights become subnormal in FP16: check the accuracy"},
    Rule{"less than smallest positive FP16", "fp16_subnormal", "weights become subnormal in FP16: check the accuracy"},
    Rule{"overflow", "overflow", ""},
    Rule{"Unable to determine GPU memory usage", "no_memory_figures", ""},
    Rule{"sufficient workspace", "small_workspace",
         "tactics were left out for want of workspace: a larger --memPoolSize may be faster"},
    Rule{"Could not read timing cache", "timing_cache", ""},
    Rule{"auxiliary streams", "auxiliary_streams", ""},
    Rule{"throttl", "throttled", ""},
};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

void conclude_int8(TrtexecRun& run) {
    const TrtexecSection& build = run.section("Build Options");
    if (contains(run.precision(), "int8") && build.value("Calibration") == "Dynamic") {
        run.remarks.push_back({"int8_without_ranges",
                               "INT8 was asked for without a calibration: the scales are made up unless the graph has "
                               "Q/DQ, so this tells speed and nothing of accuracy",
                               0, 1});
    }
}

} // namespace

std::optional<TrtexecRemark> remark_of(std::string_view warning, std::size_t line) {
    const auto* const rule =
        std::ranges::find_if(rules, [&](const Rule& each) { return contains(warning, each.contains); });
    if (rule == rules.end()) return std::nullopt;
    std::string_view text = rule->text;
    if (text.empty()) {
        text = warning;
        while (text.starts_with('*') || text.starts_with(' '))
            text.remove_prefix(1);
    }
    return TrtexecRemark{rule->name, std::string(text), line, 1};
}

void add_remark(TrtexecRun& run, TrtexecRemark remark) {
    const auto known = std::ranges::find(run.remarks, remark.name, &TrtexecRemark::name);
    if (known == run.remarks.end()) {
        run.remarks.push_back(std::move(remark));
    } else {
        ++known->count;
    }
}

void conclude(TrtexecRun& run) {
    if (run.measured()) {
        if (run.walltime_s && *run.walltime_s < least_seconds) {
            char text[120];
            std::snprintf(text, sizeof(text),
                          "measured for %.2f s, under trtexec's own 3 s: clocks may not have settled", *run.walltime_s);
            run.remarks.push_back({"short_run", text, 0, 1});
        }
        if (run.queries && *run.queries < minimum_p99_count && run.latency->percentile(99)) {
            run.remarks.push_back({"few_queries_for_p99",
                                   "p99 of " + std::to_string(*run.queries) +
                                       " queries: trtexec takes the value at that rank, of 100 the greatest",
                                   0, 1});
        }
        if (!run.passed) {
            run.remarks.push_back({"unfinished", "the log ends before trtexec said PASSED", 0, 1});
        }
        if (run.passed && !*run.passed) run.remarks.push_back({"failed", "trtexec ended with FAILED", 0, 1});
    }
    conclude_int8(run);
}

} // namespace lathe
