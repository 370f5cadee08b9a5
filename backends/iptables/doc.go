// Package iptables brings a plan into the kernel with iptables.
package iptables
