//go:build linux && race

package attack

const raceDetector = true
