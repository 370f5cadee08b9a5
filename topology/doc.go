// Package topology chooses the endpoints that a node uses.
package topology
