#include "bench/openvino_peer.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include <openvino/openvino.hpp>

namespace lathe {

namespace {

using Clock = std::chrono::steady_clock;

double nanoseconds(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double, std::nano>(to - from).count();
}

/// Runs `body`, turning OpenVINO's exceptions into errors. Its messages have many lines; the last says most.
template <class Body>
auto guarded(const std::string& where, Body&& body) -> decltype(body()) {
    try {
        return body();
    } catch (const std::exception& exception) {
        std::string text = exception.what();
        while (!text.empty() && text.back() == '\n')
            text.pop_back();
        if (const auto line = text.rfind('\n'); line != std::string::npos) text = text.substr(line + 1);
        return Error{ErrorCode::unsupported, "OpenVINO refused the model: " + text, where, ""};
    }
}

/// For each input of the model the index of ours: by name, or by place where the names differ.
Result<std::vector<std::size_t>> match_inputs(const ov::Model& model, const std::vector<InputSpec>& specs,
                                              const std::string& where) {
    if (model.inputs().size() != specs.size()) {
        return Error{ErrorCode::mismatch,
                     "the model has " + std::to_string(model.inputs().size()) + " inputs, the engine " +
                         std::to_string(specs.size()),
                     where, "compare engines and models of the same network"};
    }
    std::vector<std::size_t> order;
    for (const auto& input : model.inputs()) {
        const auto found = std::find_if(specs.begin(), specs.end(),
                                        [&](const InputSpec& spec) { return input.get_names().count(spec.name) > 0; });
        if (found == specs.end()) break;
        order.push_back(static_cast<std::size_t>(found - specs.begin()));
    }
    if (order.size() != specs.size()) {
        order.clear();
        for (std::size_t i = 0; i < specs.size(); ++i)
            order.push_back(i);
    }
    return order;
}

class OpenVinoPeer final : public Subject {
public:
    OpenVinoPeer(SubjectInfo info, std::shared_ptr<ov::Model> model)
        : Subject(std::move(info)), model_(std::move(model)) {}

private:
    Result<void> do_prepare(const InputSets& inputs, Progress& progress) override {
        LATHE_CHECK(progress.check());
        inputs_ = &inputs;
        next_set_ = 0;
        LATHE_TRY(order_, match_inputs(*model_, inputs.specs(), info().file.string()));
        return guarded(info().file.string(), [&]() -> Result<void> {
            shaped_ = model_->clone();
            std::map<ov::Output<ov::Node>, ov::PartialShape> shapes;
            for (std::size_t i = 0; i < order_.size(); ++i) {
                const Shape& shape = inputs.specs()[order_[i]].shape;
                shapes[shaped_->input(i)] = ov::PartialShape(std::vector<ov::Dimension>(shape.begin(), shape.end()));
            }
            shaped_->reshape(shapes);
            choose_precision();
            bind(request_, 0);
            request_.infer();
            return {};
        });
    }

    Result<Burst> do_burst(const BurstPlan& plan, Progress& progress) override {
        LATHE_CHECK(progress.check());
        return guarded(info().file.string(), [&]() -> Result<Burst> {
            return run_burst(plan, inputs_->count(), next_set_, [&](std::size_t set) -> Result<CallTime> {
                const auto start = Clock::now();
                bind(request_, set);
                const auto bound = Clock::now();
                request_.infer();
                const auto done = Clock::now();
                for (std::size_t i = 0; i < compiled_.outputs().size(); ++i)
                    touched_ = touched_ + *static_cast<const unsigned char*>(request_.get_output_tensor(i).data());
                return CallTime{nanoseconds(bound, done), nanoseconds(start, bound), nanoseconds(done, Clock::now())};
            });
        });
    }

    Result<Throughput> do_throughput(double seconds, Progress& progress) override {
        LATHE_CHECK(progress.check());
        return guarded(info().file.string(), [&]() -> Result<Throughput> {
            ov::CompiledModel compiled = compile(ov::hint::PerformanceMode::THROUGHPUT, precision_);
            return serve(compiled, seconds);
        });
    }

    ov::CompiledModel compile(ov::hint::PerformanceMode mode, ov::element::Type precision) {
        return core_.compile_model(shaped_, "CPU", ov::hint::performance_mode(mode),
                                   ov::hint::inference_precision(precision));
    }

    /// OpenVINO computes what is not quantised in bfloat16 wherever the processor has it, which is the slower choice on
    /// some. A peer is shown at its best: where its default is not FP32, both run in turns and the faster stays.
    void choose_precision() {
        constexpr auto latency = ov::hint::PerformanceMode::LATENCY;
        try {
            compiled_ = core_.compile_model(shaped_, "CPU", ov::hint::performance_mode(latency));
            request_ = compiled_.create_infer_request();
            bind(request_, 0);
            request_.infer();
        } catch (const std::exception&) { // some quantised networks have no layers in bfloat16
            compiled_ = compile(latency, ov::element::f32);
            request_ = compiled_.create_infer_request();
            precision_ = ov::element::f32;
            info().notes = {"latency hint, inference precision f32, since OpenVINO's default does not run this model"};
            return;
        }
        precision_ = compiled_.get_property(ov::hint::inference_precision);
        const std::string own = precision_.get_type_name();
        info().notes = {"latency hint, inference precision " + own + ", OpenVINO's default"};
        if (precision_ == ov::element::f32) return;
        ov::CompiledModel plain = compile(latency, ov::element::f32);
        ov::InferRequest plain_request = plain.create_infer_request();
        std::vector<double> ratios;
        const auto begin = Clock::now();
        for (std::size_t pair = 0; pair < 2 || (pair < 30 && Clock::now() - begin < std::chrono::seconds(3)); ++pair) {
            bind(request_, pair % inputs_->count());
            bind(plain_request, pair % inputs_->count());
            const auto first = Clock::now();
            request_.infer();
            const auto middle = Clock::now();
            plain_request.infer();
            if (pair > 0) ratios.push_back(nanoseconds(first, middle) / nanoseconds(middle, Clock::now()));
        }
        std::ranges::nth_element(ratios, ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2));
        const double ratio = ratios[ratios.size() / 2];
        const bool slower = ratio > 1;
        if (slower) {
            compiled_ = plain;
            request_ = plain_request;
            precision_ = ov::element::f32;
        }
        info().notes = {"latency hint, inference precision " + std::string(precision_.get_type_name()) +
                        ", the faster of " + own + " (OpenVINO's default) and f32: " + own + " took " +
                        std::to_string(std::lround(100 * ratio)) + " % of f32's time"};
    }

    /// Keeps OpenVINO's own number of requests in flight: each starts again from its callback.
    Result<Throughput> serve(ov::CompiledModel& compiled, double seconds) {
        const std::size_t streams = compiled.get_property(ov::optimal_number_of_infer_requests);
        std::vector<ov::InferRequest> requests;
        for (std::size_t i = 0; i < streams; ++i) {
            requests.push_back(compiled.create_infer_request());
            bind(requests.back(), i % inputs_->count());
            requests.back().infer();
        }
        std::mutex mutex;
        std::condition_variable idle;
        std::size_t running = streams;
        std::size_t finished = 0;
        std::size_t set = 0;
        std::exception_ptr failure;
        const auto start = Clock::now();
        const auto deadline = start + std::chrono::duration<double>(seconds);
        for (auto& request : requests) {
            request.set_callback([&, current = &request](const std::exception_ptr& error) {
                std::size_t next = 0;
                {
                    const std::lock_guard lock(mutex);
                    if (error) failure = error;
                    finished += error ? 0 : 1;
                    if (error || Clock::now() >= deadline) {
                        --running;
                        idle.notify_one();
                        return;
                    }
                    next = set++ % inputs_->count();
                }
                bind(*current, next);
                current->start_async();
            });
        }
        for (auto& request : requests)
            request.start_async();
        std::unique_lock lock(mutex);
        idle.wait(lock, [&] { return running == 0; });
        const double took = std::chrono::duration<double>(Clock::now() - start).count();
        lock.unlock();
        for (auto& request : requests) {
            request.wait();
            request.set_callback([](const std::exception_ptr&) {});
        }
        if (failure) std::rethrow_exception(failure);
        return Throughput{finished, took, streams};
    }

    void bind(ov::InferRequest& request, std::size_t set) {
        auto& tensors = inputs_->set(set);
        for (std::size_t i = 0; i < order_.size(); ++i) {
            HostTensor& tensor = tensors[order_[i]];
            const auto& port = compiled_.input(i);
            request.set_input_tensor(i, ov::Tensor(port.get_element_type(), port.get_shape(), tensor.bytes.data()));
        }
    }

    ov::Core core_;
    std::shared_ptr<ov::Model> model_;
    std::shared_ptr<ov::Model> shaped_;
    ov::CompiledModel compiled_;
    ov::InferRequest request_;
    ov::element::Type precision_;
    std::vector<std::size_t> order_;
    const InputSets* inputs_ = nullptr;
    std::size_t next_set_ = 0;
    unsigned touched_ = 0;
};

} // namespace

Result<std::unique_ptr<Subject>> make_openvino_peer(SubjectInfo info) {
    const std::string file = info.file.string();
    return guarded(file, [&]() -> Result<std::unique_ptr<Subject>> {
        ov::Core core;
        auto model = core.read_model(file);
        info.libraries["openvino"] = ov::get_openvino_version().buildNumber;
        return std::unique_ptr<Subject>(std::make_unique<OpenVinoPeer>(std::move(info), std::move(model)));
    });
}

} // namespace lathe
