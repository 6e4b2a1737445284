// Package stagetest runs the workflows in the SDK's test environment with the real
// activities, a store in a directory and scripted models. Start with New.
//
// Its own tests are the simulation: whole runs with the real workflows, activities, steps and rules, on a
// simulated store, models, tools, people and Temporal, in a bubble of testing/synctest. A schedule, drawn
// from a seed or read from a script, decides when each call returns, and how, and what happens in between.
// docs/reliability.md lists the invariants that every run keeps, and says how a failed seed becomes a script.
//
//   - schedule_test.go has decisions, scripts and shrinking; world_test.go lets the events happen.
//   - temporal_test.go and flow_test.go are Temporal's server and the runs of workflows; process_test.go is
//     a worker process.
//   - bucket_test.go is the store, agents_test.go the models and tools, people_test.go the people and the
//     faults.
//   - session_test.go and graph_test.go draw what is run; facts_test.go has the invariants, history_test.go
//     those of documents that are written once.
//   - simulate_test.go runs seeds and scripts, planted_test.go the faults of testdata/faults.
package stagetest
