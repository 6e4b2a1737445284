// Package storetest is the specification of artifact.Store in the form of
// tests. Every store's own tests call Run; what it does not ask for is not
// promised by the port.
package storetest
