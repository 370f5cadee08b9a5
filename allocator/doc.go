// Package allocator hands out what Services get from a cluster: ClusterIPs and
// node ports.
package allocator
