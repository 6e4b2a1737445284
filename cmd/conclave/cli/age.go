package cli

import (
	"errors"
	"strconv"
	"time"
)

// Day is a unit of Age.
const Day = 24 * time.Hour

// Age is a flag value: a duration in hours, days or weeks.
type Age time.Duration

// Type implements pflag.Value.
func (a *Age) Type() string { return "age" }

// String implements pflag.Value.
func (a *Age) String() string {
	switch d := time.Duration(*a); {
	case d == 0:
		return ""
	case d%Day == 0:
		return strconv.Itoa(int(d/Day)) + "d"
	default:
		return d.String()
	}
}

// Set implements pflag.Value.
func (a *Age) Set(value string) error {
	const most = 100 * 365 * Day
	unit := map[byte]time.Duration{'d': Day, 'w': 7 * Day}[(value + " ")[max(0, len(value)-1)]]
	d, err := time.ParseDuration(value)
	if unit > 0 {
		var n float64
		n, err = strconv.ParseFloat(value[:len(value)-1], 64)
		if d = 0; n < float64(most/unit) {
			d = time.Duration(n * float64(unit))
		}
	}
	if err != nil || d <= 0 || d > most {
		return errors.New("give an age such as 36h, 30d or 12w")
	}
	*a = Age(d)
	return nil
}
