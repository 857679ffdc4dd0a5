#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/subject.hpp"
#include "data/open_dataset.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace lathe {

/// NVIDIA's trtexec, which runs TensorRT's own plans.
struct TrtexecOptions {
    std::string program = "trtexec"; ///< a name looked up on PATH, or a path
    std::optional<int> device;       ///< index of the GPU; trtexec's own choice if absent
    double warm_up_ms = 200;         ///< before each turn, in trtexec's process
    bool give_inputs = false;        ///< hand over the first input set; else trtexec draws its own numbers
};

/// The program's path. Errors: not_found, with what to install.
Result<std::filesystem::path> find_trtexec(const std::string& program);

/// Times of every query that trtexec measured, in ms, as --exportTimes of TensorRT 8 to 11 writes them.
struct TrtexecTrace {
    std::vector<double> latency, copy_in, compute, copy_out;
};
/// Queries whose computing began before `warm_up_ms` are left out: TensorRT up to 8.4 exports its warm-up as well,
/// later ones leave it out by the same rule. Errors: parse_error with `where`: another form, no query, a time that is
/// no number or negative.
Result<TrtexecTrace> parse_trtexec_times(std::string_view text, std::string_view where, double warm_up_ms);

/// A plan (info.file) in trtexec. A turn is a process of its own: the plan is loaded, warmed up and timed query by
/// query with nothing else in flight (--exposeDMA), in a CUDA graph, copies included; the times are those that trtexec
/// exports, so they are of the GPU's clock: copy in + compute + copy out, without what the host does around them.
/// Throughput is one run with trtexec's own overlap of copies and computing. `scratch` outlives the subject. Runs the
/// plan once to see what it is; that fills in version, load time and notes.
/// Errors: not_found (no trtexec), unsupported (trtexec fails, with its words).
struct TrtexecSubject {
    std::unique_ptr<Subject> subject;
    /// As trtexec ran the plan then, for runs without an engine to tell them. Types are not known and stay float32.
    std::vector<InputSpec> inputs;
};
Result<TrtexecSubject> make_trtexec_subject(SubjectInfo info, const TrtexecOptions& options,
                                            std::filesystem::path scratch, Progress& progress);

} // namespace lathe
