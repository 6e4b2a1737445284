//go:build linux && !race

package attack_test

const raced = false
