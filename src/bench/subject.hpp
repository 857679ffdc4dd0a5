#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/inputs.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace lathe {

enum class SubjectKind { engine, pytorch, torch_compile, onnxruntime, openvino, trtexec };

/// "engine", "pytorch", "torch-compile", "onnxruntime", "openvino", as --against and the JSON call them; "trtexec".
const char* to_string(SubjectKind kind);
std::optional<SubjectKind> subject_kind_from_name(std::string_view name);

/// Who is measured.
struct SubjectInfo {
    std::string name; ///< unique within a run
    SubjectKind kind = SubjectKind::engine;
    std::string precision;                       ///< "int8", "fp32", ... ; empty where the subject does not tell
    std::filesystem::path file;                  ///< model or engine file; empty for a module rebuilt from its source
    std::uintmax_t file_bytes = 0;               ///< 0 without a file
    std::string hash;                            ///< of the file; empty without
    std::optional<double> load_ms;               ///< from the file to ready for its first call, in a fresh process
    std::optional<std::uint64_t> peak_rss_bytes; ///< of a fresh process that loads it and runs `peak_rss_batch`
    std::int64_t peak_rss_batch = 0;
    std::string device = "cpu"; ///< what it runs on, as --device says it
    /// Bytes on its device, in a fresh process that loads it and runs `peak_rss_batch`: "peak" (its own allocations at
    /// their most), and of engines "weights", "activations", "workspace", "staging" (on the host) and "process" (all
    /// that the process took there, its context and code with it, measured). Null on the CPU.
    Json device_memory = nullptr;
    Json libraries = Json::object(); ///< name → version
    std::vector<std::string> notes;  ///< how it was run, where that is a choice
};

/// How long one turn is.
struct BurstPlan {
    double milliseconds = 50;      ///< keep calling until the kept calls took this long
    std::size_t max_calls = 20000; ///< of one burst
    double pause_ms = 0;           ///< before every call; then the first call is as good as the others, and kept
    bool other_size = false;       ///< before every call one, not timed, of another batch size; the first is kept too

    bool keeps_first() const { return pause_ms > 0 || other_size; }
};

/// The calls of one turn, in nanoseconds. The first call is dropped when it is short against the burst: it wakes the
/// threads and refills the caches that the subject before it used.
struct Burst {
    std::vector<double> call_ns;
    std::vector<double> copy_in_ns;  ///< binding or copying inputs, a call; empty where it is part of the call
    std::vector<double> copy_out_ns; ///< fetching outputs, a call; empty where it is part of the call
    std::vector<double> device_ns;   ///< kernels alone, by the device's clock; empty where there is none
};

/// Requests served in a given time by as many streams as the subject does best with.
struct Throughput {
    std::size_t requests = 0;
    double seconds = 0;
    std::size_t streams = 1; ///< requests in flight at once
    /// What each device served, where there are several or inputs lay on them.
    struct Share {
        int device = 0;
        std::size_t requests = 0;
        std::size_t streams = 0;
    };
    std::vector<Share> devices{};
    /// Short runs by which the number of streams was chosen: requests a second by streams, on one device.
    struct Trial {
        std::size_t streams = 1;
        double qps = 0;
    };
    std::vector<Trial> trials{};
    double qps() const { return seconds > 0 ? static_cast<double>(requests) / seconds : 0; }
};

/// Where the inputs of a request lie when it begins.
enum class InputPlace {
    host,  ///< in ordinary memory: each request copies them to its device
    device ///< in the device's memory: each stream runs on one set that was copied before
};
const char* to_string(InputPlace place); ///< "host", "device"

/// Throughput on some of a subject's devices.
struct SpreadPlan {
    double seconds = 3;
    std::size_t devices = 1; ///< the first so many
    InputPlace inputs = InputPlace::host;
};

/// Requests of shapes of their own: each has one tensor a model input.
using Requests = std::vector<std::vector<HostTensor>>;

/// Requests that a subject has taken (see Subject::take). Ends before the subject and the requests do.
class RequestList {
public:
    RequestList() = default;
    virtual ~RequestList() = default;
    RequestList(const RequestList&) = delete;
    RequestList& operator=(const RequestList&) = delete;
    /// Nanoseconds of each of the calls first .. first + count - 1. One call that is not timed goes before them: it
    /// wakes the threads and refills the caches that the subject before it used.
    virtual Result<std::vector<double>> run(std::size_t first, std::size_t count, Progress& progress) = 0;
};

/// Something that is timed. Order: prepare, then any number of burst and throughput, then prepare again for another
/// batch size. Used by one thread at a time.
class Subject {
public:
    explicit Subject(SubjectInfo info) : info_(std::move(info)) {}
    virtual ~Subject() = default;
    Subject(const Subject&) = delete;
    Subject& operator=(const Subject&) = delete;

    const SubjectInfo& info() const { return info_; }
    SubjectInfo& info() { return info_; }

    /// Make ready for these inputs (compile, allocate, one call that is not timed). `inputs` outlives the next prepare.
    Result<void> prepare(const InputSets& inputs, Progress& progress) { return do_prepare(inputs, progress); }
    /// One turn of calls, rotating through the input sets.
    Result<Burst> burst(const BurstPlan& plan, Progress& progress) { return do_burst(plan, progress); }
    /// As many requests as it can serve in `seconds`.
    Result<Throughput> throughput(double seconds, Progress& progress) { return do_throughput(seconds, progress); }
    /// Make ready for requests of different shapes: one call of every shape there is, not timed.
    /// Errors: unsupported where a shape of its own for every request cannot be measured; what the calls give.
    Result<std::unique_ptr<RequestList>> take(Requests& requests, Progress& progress) {
        return do_take(requests, progress);
    }
    /// Whether bursts with `other_size` are to be had with the inputs prepared.
    virtual bool runs_other_sizes() const { return false; }
    /// What it takes on its device by now, as SubjectInfo::device_memory says it; null on the CPU.
    virtual Json memory() const { return nullptr; }
    /// Devices that requests can be spread over; 0 where there are none beside the CPU.
    virtual std::size_t devices() const { return 0; }
    /// Throughput on the first `plan.devices` of them. Errors: unsupported where there are none.
    Result<Throughput> spread(const SpreadPlan& plan, Progress& progress) { return do_spread(plan, progress); }

protected:
    virtual Result<void> do_prepare(const InputSets& inputs, Progress& progress) = 0;
    virtual Result<Burst> do_burst(const BurstPlan& plan, Progress& progress) = 0;
    virtual Result<Throughput> do_throughput(double seconds, Progress& progress) = 0;
    virtual Result<Throughput> do_spread(const SpreadPlan& /*plan*/, Progress& /*progress*/) {
        return Error{ErrorCode::unsupported, "requests cannot be spread over devices", info_.name, ""};
    }
    virtual Result<std::unique_ptr<RequestList>> do_take(Requests& /*requests*/, Progress& /*progress*/) {
        return Error{ErrorCode::unsupported, "it is not measured on requests of different lengths", info_.name,
                     "compare with pytorch or onnxruntime"};
    }

private:
    SubjectInfo info_;
};

/// The burst loop of the subjects that run in this process.
/// `call(set)` runs input set number `set` and returns its own timings.
struct CallTime {
    double call_ns = 0;
    double copy_in_ns = 0;
    double copy_out_ns = 0;
};
/// Sleeps so many milliseconds.
void pause(double milliseconds);
template <class Call>
Result<Burst> run_burst(const BurstPlan& plan, std::size_t sets, std::size_t& next_set, Call&& call) {
    Burst burst;
    const double enough = plan.milliseconds * 1e6;
    double kept = 0;
    for (std::size_t i = 0; i < plan.max_calls && kept < enough; ++i) {
        if (plan.pause_ms > 0) pause(plan.pause_ms);
        LATHE_TRY(const CallTime time, call(next_set));
        next_set = (next_set + 1) % sets;
        if (i == 0 && !plan.keeps_first() && time.call_ns < enough) continue;
        kept += time.call_ns;
        burst.call_ns.push_back(time.call_ns);
        burst.copy_in_ns.push_back(time.copy_in_ns);
        burst.copy_out_ns.push_back(time.copy_out_ns);
    }
    return burst;
}

} // namespace lathe
