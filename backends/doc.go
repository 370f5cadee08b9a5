// Package backends has the interface between a plan and a data plane.
package backends
