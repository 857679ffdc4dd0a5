#pragma once

#include <cstdint>

namespace lathe::cuda {

/// Cells of recurrent networks; `rnn_relu` is an RNN that ends in max(x, 0) instead of tanh. The plan, the interpreter
/// and the kernels share these numbers.
enum class Cell : std::int32_t { rnn, gru, lstm, rnn_relu };
/// Products with the state in a step, each as many numbers as the state has.
constexpr std::int64_t gates_of(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

} // namespace lathe::cuda
