// Package stage sets the scene for tests: it writes the records of runs, plays Temporal, runs command
// lines and starts the parts of a cluster.
//
// Play writes the directory of a session. A script sets the outcomes of steps; the core of the
// protocol decides everything else, as in a session run by workers. Start with NewRecord in play.go;
// scripts.go has the sessions that tests share, and questions.go the questions of their readers with the answers.
// PipelineRun and Scenario in shell.go write the other kinds of runs.
//
// Shell runs command lines in this process and in an empty home directory. Start with NewShell in
// shell.go. Server in server.go plays Temporal in memory, and Terminal a person's terminal.
//
// StartTemporal, StartPostgres and StartMinIO run the parts of a cluster as processes, each of which
// can be killed and restarted on its data. They have the build tags e2e and bench, listen on
// 127.0.0.1, and find the programs with environment variables set by make: TEMPORAL_SERVER_BIN,
// TEMPORAL_SQL_BIN, POSTGRES_BIN (a directory) and MINIO_BIN.
package stage
