#include "bench/worker_subject.hpp"

#include <chrono>

#include "bench/process.hpp"
#include "support/files.hpp"
#include "support/json_fault.hpp"

namespace lathe {

namespace {

using std::chrono::seconds;

/// torch.compile takes minutes on a small machine; a hang must still end.
constexpr seconds prepare_limit{1200};

/// Requests in the worker's memory. A worker keeps one list at a time.
class WorkerRequests final : public RequestList {
public:
    WorkerRequests(JsonProcess& process, std::string name) : process_(process), name_(std::move(name)) {}

    Result<std::vector<double>> run(std::size_t first, std::size_t count, Progress& progress) override {
        LATHE_TRY(const Json answer,
                  process_.ask({{"command", "turn"}, {"first", first}, {"count", count}}, seconds(600), progress));
        try {
            return answer.at("call_ns").get<std::vector<double>>();
        } catch (const Json::exception& error) {
            return Error{ErrorCode::internal, "the worker's answer is not as expected: " + json_fault(error), name_,
                         ""};
        }
    }

private:
    JsonProcess& process_;
    std::string name_;
};

std::vector<std::string> texts(const Json& list) {
    std::vector<std::string> found;
    if (!list.is_array()) return found;
    for (const auto& text : list)
        if (text.is_string()) found.push_back(text.get<std::string>());
    return found;
}

Result<void> write_requests(const std::filesystem::path& file, const Requests& requests) {
    LATHE_TRY(AtomicFile out, AtomicFile::create(file));
    for (const auto& request : requests) {
        for (const HostTensor& tensor : request)
            LATHE_CHECK(out.write(std::span<const std::byte>(tensor.bytes)));
    }
    return out.commit();
}

class WorkerSubject final : public Subject {
public:
    WorkerSubject(SubjectInfo info, std::unique_ptr<JsonProcess> process, std::filesystem::path scratch)
        : Subject(std::move(info)), process_(std::move(process)), scratch_(std::move(scratch)) {}

private:
    Result<void> do_prepare(const InputSets& inputs, Progress& progress) override {
        // One file for all workers of a batch size: the first that needs it writes it.
        const auto file = scratch_ / ("inputs-" + std::to_string(inputs.batch()) + ".bin");
        if (!std::filesystem::exists(file)) LATHE_CHECK(inputs.write(file));
        LATHE_TRY(const Json answer, process_->ask({{"command", "prepare"},
                                                    {"file", file.string()},
                                                    {"inputs", inputs.describe()},
                                                    {"sets", inputs.count()}},
                                                   prepare_limit, progress));
        if (const auto notes = answer.find("notes"); notes != answer.end()) info().notes = texts(*notes);
        // Later batch sizes come on top of the earlier ones' input sets, so only the first tells the framework's own.
        if (!info().peak_rss_bytes) {
            info().peak_rss_bytes = answer.value("peak_rss_bytes", std::uint64_t{0});
            info().peak_rss_batch = inputs.batch();
            if (const auto peak = answer.find("device_peak_bytes"); peak != answer.end() && peak->is_number())
                info().device_memory = {{"peak", *peak}};
        }
        return {};
    }

    Result<std::unique_ptr<RequestList>> do_take(Requests& requests, Progress& progress) override {
        const auto file = scratch_ / (info().name + "-requests.bin");
        LATHE_CHECK(write_requests(file, requests));
        Json inputs = Json::array();
        Json shapes = Json::array();
        for (const HostTensor& tensor : requests.front())
            inputs.push_back({{"name", tensor.name}, {"type", to_string(tensor.type)}});
        for (const auto& request : requests) {
            Json& list = shapes.emplace_back(Json::array());
            for (const HostTensor& tensor : request)
                list.push_back(tensor.shape);
        }
        LATHE_TRY(const Json answer, process_->ask({{"command", "requests"},
                                                    {"file", file.string()},
                                                    {"inputs", std::move(inputs)},
                                                    {"shapes", std::move(shapes)}},
                                                   prepare_limit, progress));
        if (!info().peak_rss_bytes) {
            info().peak_rss_bytes = answer.value("peak_rss_bytes", std::uint64_t{0});
            info().peak_rss_batch = requests.front().front().shape.front();
        }
        return std::unique_ptr<RequestList>(std::make_unique<WorkerRequests>(*process_, info().name));
    }

    Result<Burst> do_burst(const BurstPlan& plan, Progress& progress) override {
        LATHE_TRY(
            const Json answer,
            process_->ask({{"command", "burst"}, {"milliseconds", plan.milliseconds}, {"max_calls", plan.max_calls}},
                          seconds(600), progress));
        try {
            Burst burst;
            burst.call_ns = answer.at("call_ns").get<std::vector<double>>();
            burst.copy_in_ns = answer.at("copy_in_ns").get<std::vector<double>>();
            burst.copy_out_ns = answer.at("copy_out_ns").get<std::vector<double>>();
            burst.device_ns = answer.value("device_ns", std::vector<double>());
            return burst;
        } catch (const Json::exception& error) {
            return Error{ErrorCode::internal, "the worker's answer is not as expected: " + json_fault(error),
                         info().name, ""};
        }
    }

    Result<Throughput> do_throughput(double duration, Progress& progress) override {
        const seconds limit(600 + static_cast<std::int64_t>(2 * duration));
        LATHE_TRY(const Json answer,
                  process_->ask({{"command", "throughput"}, {"seconds", duration}}, limit, progress));
        return Throughput{answer.value("requests", std::size_t{0}), answer.value("seconds", 0.0),
                          answer.value("streams", std::size_t{1})};
    }

    std::unique_ptr<JsonProcess> process_;
    std::filesystem::path scratch_;
};

} // namespace

Result<std::unique_ptr<Subject>> make_worker_subject(SubjectInfo info, const Json& source, const std::string& code,
                                                     const PythonPlace& python, std::filesystem::path scratch,
                                                     Progress& progress) {
    auto process = JsonProcess::start(python_command(python, "lathe_worker"), python_environment(python));
    if (!process) {
        Error error = std::move(process).error();
        error.hint = "install Python 3, or set LATHE_PYTHON to an interpreter that has the framework";
        return error;
    }
    const Json request{
        {"command", "load"}, {"kind", to_string(info.kind)}, {"model", info.file.string()}, {"source", source},
        {"code", code},      {"device", info.device},        {"precision", info.precision}};
    LATHE_TRY(const Json answer, (*process)->ask(request, seconds(600), progress));
    if (const auto found = answer.find("load_ms"); found != answer.end() && found->is_number()) {
        info.load_ms = found->get<double>();
    }
    if (const auto found = answer.find("libraries"); found != answer.end()) info.libraries = *found;
    if (const auto found = answer.find("notes"); found != answer.end()) info.notes = texts(*found);
    return std::unique_ptr<Subject>(
        std::make_unique<WorkerSubject>(std::move(info), std::move(*process), std::move(scratch)));
}

} // namespace lathe
