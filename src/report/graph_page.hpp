#pragma once

#include <string>

#include "support/json.hpp"

namespace lathe::report {

/// A network as one HTML file that asks for nothing else, as render_html: layers from the top down, coloured by
/// precision or time, with the details of the one that is clicked. `graph` holds "title", "inputs" and "outputs" (name,
/// type, shape), and "nodes": name, op, precision, in and out (as inputs), attributes (text by name), macs, parameters
/// and, where they are known, time_ms and reasons (texts).
std::string render_graph_html(const Json& graph);

} // namespace lathe::report
