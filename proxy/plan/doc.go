// Package plan decides what happens to which packet on one node.
package plan
