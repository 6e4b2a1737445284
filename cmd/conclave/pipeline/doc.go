// Package pipeline is the wing of pipelines: it reads and checks their files, starts
// runs, shows their progress, state and result, and lists them. Start with command.go;
// Kind is the pipeline's part in the commands that take an ID.
package pipeline
