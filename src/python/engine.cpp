#include <memory>
#include <mutex>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "lathe/engine.hpp"
#include "python/arrays.hpp"
#include "python/bindings.hpp"
#include "python/errors.hpp"

namespace nb = nanobind;

namespace lathe::python {
namespace {

/// A session that several Python threads may share: they take turns.
class LockedSession {
public:
    explicit LockedSession(Session session) : session_(std::move(session)) {}

    const Session& session() const { return session_; }

    /// One array where the model has one output, else a dict by name. The GIL is free while the model runs.
    nb::object run(nb::handle inputs) {
        const GivenInputs given = inputs_of(inputs, session_.inputs());
        std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
        const auto outputs = [&] {
            const nb::gil_scoped_release release;
            lock.lock();
            return session_.run(given.views);
        }();
        if (!outputs) throw Failure(outputs.error());
        // Copied before the next run, which reuses the memory.
        if (outputs->size() == 1) return to_numpy(outputs->front());
        nb::dict named;
        for (const TensorView& output : *outputs)
            named[output.name.c_str()] = to_numpy(output);
        return named;
    }

private:
    Session session_;
    std::mutex mutex_;
};

nb::object shape_of(const Shape& shape) {
    nb::list sizes;
    for (const std::int64_t size : shape)
        sizes.append(size);
    return nb::tuple(sizes);
}

/// (name, type, least, best, largest shape), as Tensor in lathe/_engine.py takes it.
nb::list describe(const std::vector<IoInfo>& tensors) {
    nb::list described;
    for (const IoInfo& io : tensors) {
        described.append(nb::make_tuple(io.name, to_string(io.type), shape_of(io.range.min), shape_of(io.range.opt),
                                        shape_of(io.range.max)));
    }
    return described;
}

Engine load(const std::filesystem::path& path, std::size_t threads, std::vector<int> devices) {
    EngineLoadOptions options;
    options.threads = threads;
    options.devices = std::move(devices);
    const nb::gil_scoped_release release;
    return value_of(Engine::load(path, options));
}

std::unique_ptr<LockedSession> make_session(const Engine& engine) {
    const nb::gil_scoped_release release;
    return std::make_unique<LockedSession>(value_of(engine.make_session()));
}

void save(Engine& engine, const std::filesystem::path& path) {
    const nb::gil_scoped_release release;
    value_of(engine.save(path));
}

/// Where the model would read each of these inputs: for the test that contiguous ones are not copied.
std::vector<std::uintptr_t> addresses(nb::handle inputs) {
    const GivenInputs given = inputs_of(inputs, {});
    std::vector<std::uintptr_t> found;
    for (const TensorView& view : given.views)
        found.push_back(reinterpret_cast<std::uintptr_t>(view.bytes.data()));
    return found;
}

} // namespace

void add_engine(nb::module_& module) {
    nb::class_<LockedSession>(module, "Session")
        .def("run", &LockedSession::run, nb::arg("inputs").none())
        .def("inputs", [](const LockedSession& session) { return describe(session.session().inputs()); })
        .def("outputs", [](const LockedSession& session) { return describe(session.session().outputs()); });
    nb::class_<Engine>(module, "Engine")
        .def_static("load", &load, nb::arg("path"), nb::arg("threads"), nb::arg("devices"))
        .def("save", &save, nb::arg("path"))
        .def("session", &make_session)
        .def("inputs", [](const Engine& engine) { return describe(engine.info().inputs); })
        .def("outputs", [](const Engine& engine) { return describe(engine.info().outputs); })
        .def("metadata", [](const Engine& engine) { return to_json_text(engine.info()); })
        .def("preprocess", [](const Engine& engine) { return engine.info().preprocess; });
    module.def("addresses", &addresses, nb::arg("inputs"));
}

} // namespace lathe::python
