// Package nftables brings a plan into the kernel with nftables: one table in
// family ip and one in ip6, written together in one transaction.
//
// A verdict in the map of frontends names what is done with a packet and how many endpoints there
// are, never a Service: all Service ports with ten endpoints and the same row of the
// decision table share one chain. Changing an endpoint changes elements of maps only.
package nftables
