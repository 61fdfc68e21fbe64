// Finds the network address of this host to which ranks on other hosts should connect.
#pragma once

#include <string>

namespace dpbench {

// Returns the local address of the route to the host in MASTER_ADDR, without sending data to it. Throws UsageError if
// MASTER_ADDR is not set or there is no route.
std::string address_towards_master();

// Returns the name of the network interface with this address; an empty string if there is none.
std::string interface_of(const std::string& address);
// Returns the first address of the network interface with this name; an empty string if there is none.
std::string address_of_interface(const std::string& name);

}  // namespace dpbench
