// Package stagetest runs the workflows in the SDK's test environment with the real
// activities, a store in a directory and scripted models. Start with New.
package stagetest
