// Which of this host's addresses its peers on other hosts should talk to.
#pragma once

#include <string>

namespace dpbench {

// The local address of the route to MASTER_ADDR: found without sending anything. UsageError when there is no such
// route.
std::string address_towards_master();

// The name of the interface that has this address; empty when there is none.
std::string interface_of(const std::string& address);

}  // namespace dpbench
