#include "strategies/comm/base/replica_link.h"

namespace dpbench {

const ReplicaLink*& nccl_replica_link() {
  static const ReplicaLink* link = nullptr;
  return link;
}

}  // namespace dpbench
