// Package service turns Services into immutable values.
package service
