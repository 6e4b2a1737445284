// Package workertest stands in for a worker in the tests of activities and workflows. Start with
// Worker in workertest.go.
package workertest
