#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "python/bindings.hpp"
#include "python/errors.hpp"
#include "support/log.hpp"

namespace nb = nanobind;

namespace {

/// Messages of the library go to `sink(level, text)`, None: nowhere.
void send_log_to(const nb::object& sink) {
    if (sink.is_none()) {
        lathe::set_log_sink({});
        return;
    }
    // Never freed: a message may come from a thread that outlives the interpreter's last look at the sink.
    PyObject* const held = nb::object(sink).release().ptr();
    lathe::set_log_sink([held](lathe::LogLevel level, std::string_view message) {
        const nb::gil_scoped_acquire acquire;
        try {
            const nb::handle call(held);
            call(static_cast<int>(level), std::string(message));
        } catch (nb::python_error& error) {
            // Ctrl-C is for the work, which asks for it, not for the one message during which it came.
            if (error.matches(PyExc_KeyboardInterrupt)) {
                PyErr_SetInterrupt();
            } else {
                error.discard_as_unraisable("lathe's log");
            }
        }
    });
}

} // namespace

NB_MODULE(_lathe, module) {
    module.doc() = "Lathe's library, as lathe's Python modules use it.";
    lathe::python::register_errors();
    module.def("send_log_to", &send_log_to, nb::arg("sink").none());
    lathe::python::add_analysis(module);
    lathe::python::add_autocast(module);
    lathe::python::add_batching(module);
    lathe::python::add_bench(module);
    lathe::python::add_deploy(module);
    lathe::python::add_engine(module);
    lathe::python::add_model(module);
    lathe::python::add_optimize(module);
    lathe::python::add_parts(module);
    lathe::python::add_report(module);
    lathe::python::add_tools(module);
    lathe::python::add_tune(module);
    module.attr("version") = LATHE_VERSION;
}
