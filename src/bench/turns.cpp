#include "bench/turns.hpp"

#include <chrono>
#include <string>
#include <vector>

#include "data/npy.hpp"
#include "runtime/engine.hpp"
#include "support/json.hpp"
#include "support/json_fault.hpp"

namespace lathe {

namespace {

using Clock = std::chrono::steady_clock;

class Turns {
public:
    Turns(const EngineInfo& info, Session session) : info_(info), session_(std::move(session)) {}

    Json answer(const std::string& line) {
        auto done = handle(line);
        if (done) return std::move(*done);
        const Error& error = done.error();
        return Json{{"error", {{"code", to_string(error.code)}, {"message", error.describe()}, {"hint", error.hint}}}};
    }

private:
    Result<Json> handle(const std::string& line) {
        LATHE_TRY(const Json request, parse_json(line, "standard input"));
        try {
            if (request.contains("inputs")) LATHE_CHECK(read_inputs(request["inputs"]));
            return burst(request.value("warm", std::size_t{0}), request.at("calls").get<std::size_t>(),
                         request.value("timed", true), request.value("save", std::string()));
        } catch (const Json::exception& error) {
            return Error{ErrorCode::parse_error, "not a request: " + json_fault(error), "standard input", ""};
        }
    }

    Result<void> read_inputs(const Json& files) {
        std::vector<HostTensor> tensors;
        for (const IoInfo& input : info_.inputs) {
            LATHE_TRY(HostTensor tensor, read_npy(files.at(input.name).get<std::string>()));
            tensor.name = input.name;
            tensors.push_back(std::move(tensor));
        }
        inputs_ = std::move(tensors);
        return {};
    }

    Result<Json> burst(std::size_t warm, std::size_t calls, bool timed, const std::string& save) {
        std::vector<TensorView> views;
        for (HostTensor& tensor : inputs_)
            views.push_back(tensor.view());
        if (timed || timing_) LATHE_CHECK(session_.set_timing(timed));
        timing_ = timed;
        Json answer{{"call_ms", Json::array()}};
        std::vector<TensorView> outputs;
        for (std::size_t i = 0; i < warm + calls; ++i) {
            const auto start = Clock::now();
            LATHE_TRY(outputs, session_.run(views));
            const std::chrono::duration<double, std::milli> took = Clock::now() - start;
            if (i < warm) continue;
            answer["call_ms"].push_back(took.count());
            if (!timed) {
                // What no GPU runs has no such figure.
                if (const auto overhead = session_.host_overhead_us()) answer["host_us"].push_back(*overhead);
                continue;
            }
            LATHE_TRY(const RunTimes times, session_.times());
            answer["device_ms"].push_back(times.compute_ms);
            answer["copy_in_ms"].push_back(times.copy_in_ms);
            answer["copy_out_ms"].push_back(times.copy_out_ms);
            answer["enqueue_us"].push_back(times.enqueue_us);
        }
        if (!save.empty() && !outputs.empty()) LATHE_CHECK(write_npz(save, outputs));
        return answer;
    }

    const EngineInfo& info_;
    Session session_;
    std::vector<HostTensor> inputs_;
    bool timing_ = false;
};

} // namespace

Result<void> serve_turns(const std::filesystem::path& engine, std::istream& requests, std::ostream& answers) {
    LATHE_TRY(const Engine loaded, Engine::load(engine));
    LATHE_TRY(Session session, loaded.make_session());
    Turns turns(loaded.info(), std::move(session));
    for (std::string line; std::getline(requests, line);) {
        if (!line.empty()) answers << turns.answer(line).dump() << std::endl;
    }
    return {};
}

} // namespace lathe
