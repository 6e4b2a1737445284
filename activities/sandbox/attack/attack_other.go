//go:build !linux

package attack

import (
	"context"
	"errors"
	"io"
)

type attack struct{}

var table []attack

func runAttacks(context.Context, []attack, Options, string) ([]Result, error) {
	return nil, errors.New("the attacks need Linux")
}

func runChild([]attack, []string, io.Reader, io.Writer) int { return 1 }
