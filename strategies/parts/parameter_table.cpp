#include "strategies/parts/parameter_table.h"

#include <algorithm>
#include <unordered_map>

#include "workloads/base/error.h"

namespace dpbench {
namespace {

// Builds the table. items: the model's parameters or buffers, by name. list_of: returns those of one layer.
template <class Items, class ListOf>
std::vector<TableRow> table_of(const Items& items, const Model& model, const ListOf& list_of) {
  std::vector<TableRow> table;
  std::unordered_map<const void*, size_t> rows;  // the table's row of each tensor, by the tensor's address
  for (const auto& item : items)
    if (rows.emplace(item.value().unsafeGetTensorImpl(), table.size()).second)
      table.push_back({.name = item.key(), .tensor = item.value()});
  for (size_t block = 0; block < model.blocks().size(); ++block)
    for (const auto& layer : model.blocks()[block].layers)
      for (const at::Tensor& tensor : list_of(*layer)) {
        const auto row = rows.find(tensor.unsafeGetTensorImpl());
        check(row != rows.end(), "a layer of a block is not registered in its model");
        std::vector<size_t>& users = table[row->second].blocks;
        if (users.empty() || users.back() != block) users.push_back(block);
      }
  return table;
}

}  // namespace

bool TableRow::used_in(size_t first, size_t last) const {
  return std::ranges::any_of(blocks, [&](size_t block) { return first <= block && block < last; });
}

std::vector<TableRow> parameter_table(const Model& model) {
  return table_of(model.named_parameters(), model, [](const auto& layer) { return layer.parameters(); });
}

std::vector<TableRow> buffer_table(const Model& model) {
  return table_of(model.named_buffers(), model, [](const auto& layer) { return layer.buffers(); });
}

}  // namespace dpbench
