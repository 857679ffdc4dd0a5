#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "lathe/batching.hpp"
#include "lathe/engine.hpp"
#include "python/arrays.hpp"
#include "python/bindings.hpp"
#include "python/errors.hpp"
#include "support/log.hpp"

namespace nb = nanobind;

namespace lathe::python {
namespace {

/// The callback of a request: called once, with (outputs by name, None) or (None, error), on a thread of the batching
/// session. It must not raise; what it raises all the same is told as Python tells of such, and the session goes on.
class Answer {
public:
    explicit Answer(nb::object call) : call_(std::make_shared<nb::object>(std::move(call))) {}

    void operator()(Result<BatchReply> reply) const {
        const nb::gil_scoped_acquire acquire;
        try {
            nb::object outputs = nb::none(), error = nb::none();
            if (reply) {
                try {
                    outputs = arrays_of(*reply);
                } catch (const Failure& failure) {
                    error = error_of(failure.error());
                }
            } else {
                error = error_of(reply.error());
            }
            (*call_)(outputs, error);
        } catch (nb::python_error& raised) {
            raised.discard_as_unraisable("the answer to a request of lathe");
        } catch (const std::exception& failed) { // out of memory; the thread serves others too
            log(LogLevel::error, std::string("the answer to a request could not be given: ") + failed.what());
        }
        call_->reset(); // here, where the GIL is held
    }

private:
    static nb::object arrays_of(BatchReply& reply) {
        nb::dict outputs;
        for (HostTensor& tensor : reply.outputs)
            outputs[tensor.name.c_str()] = to_numpy(tensor.view());
        return outputs;
    }
    static nb::object error_of(const Error& error) {
        return nb::module_::import_("lathe").attr("Error")(error.message, to_string(error.code), error.where,
                                                           error.hint);
    }

    std::shared_ptr<nb::object> call_;
};

class Batching {
public:
    Batching(const Engine& engine, std::int64_t max_batch, std::int64_t max_wait_us, std::size_t capacity,
             std::size_t instances)
        : session_([&] {
              BatchingOptions options;
              options.max_batch = max_batch;
              options.max_wait = std::chrono::microseconds(max_wait_us);
              options.queue_capacity = capacity;
              options.instances = instances;
              options.warm_up = true;
              const nb::gil_scoped_release release;
              return value_of(BatchingSession::start(engine, options));
          }()) {}

    ~Batching() {
        // Draining calls answers, which need the GIL.
        const nb::gil_scoped_release release;
        (void)session_.shutdown(Shutdown::drain);
    }
    Batching(const Batching&) = delete;
    Batching& operator=(const Batching&) = delete;

    void submit(const nb::dict& inputs, nb::object answer) {
        std::vector<HostTensor> tensors;
        for (const auto& [name, array] : inputs)
            tensors.push_back(tensor_of(array, nb::cast<std::string>(name)));
        Answer call(std::move(answer));
        value_of(session_.submit(std::move(tensors), std::move(call)));
    }

    nb::dict statistics() const {
        const BatchingStatistics found = session_.statistics();
        nb::dict told;
        told["accepted"] = found.accepted;
        told["rejected"] = found.rejected;
        told["completed"] = found.completed;
        told["failed"] = found.failed;
        told["waiting"] = found.waiting;
        told["batches"] = found.batches;
        told["samples"] = found.samples;
        return told;
    }

private:
    BatchingSession session_;
};

} // namespace

void add_batching(nb::module_& module) {
    nb::class_<Batching>(module, "Batching")
        .def(nb::init<const Engine&, std::int64_t, std::int64_t, std::size_t, std::size_t>())
        .def("submit", &Batching::submit)
        .def("statistics", &Batching::statistics);
}

} // namespace lathe::python
