// Package worker assembles one worker process: the store, the teams, the
// activities and their registration with Temporal.
package worker
