//go:build e2e

package sandbox_test

import "testing"

// Compilers work in a sandbox. Go's has no cache there, so it compiles the standard library, too.
func TestRun_compilers(t *testing.T) {
	t.Parallel()
	carryOut(t, []work{
		{name: "gcc", program: "gcc", script: `
			printf '#include <stdio.h>\nint main(){puts("built");}' > a.c && gcc -O2 -o a a.c && ./a | grep built`},
		{name: "go", program: "go", script: `
			export GOFLAGS=-buildvcs=false GOPROXY=off GOTOOLCHAIN=local && mkdir m && cd m
			printf 'module m\ngo 1.21\n' > go.mod
			printf 'package main\nfunc main(){println("built")}\n' > main.go
			go build -o m . && ./m && go run .`},
	})
}
