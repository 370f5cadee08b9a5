// Package nftgen reads the generation of nftables: a number that every commit changes, whoever makes it, and that is
// never 0. A program that says that it has committed something and leaves the number as it was has not.
package nftgen
