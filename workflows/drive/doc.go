// Package drive has the parts that every wing of workflows uses. Each wing keeps its
// own loop and calls them: names.go has the names and limits that other programs rely
// on, activity.go the options of activities, outcome.go converts their results and
// errors, board.go writes Markdown for the Web UI, grace.go bounds an ending.
package drive
