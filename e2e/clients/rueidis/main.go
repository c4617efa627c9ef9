// The client-side cache of rueidis: cache PORT. Another client writes, deletes and flushes; no stale value stays.
package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

func check(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func connect(port string) rueidis.Client {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:" + port}})
	check(err)
	return client
}

func main() {
	ctx := context.Background()
	reader, writer := connect(os.Args[1]), connect(os.Args[1])
	defer reader.Close()
	defer writer.Close()
	// A value that the cache may keep for an hour; "" where there is none.
	read := func(key string) string {
		value, err := reader.DoCache(ctx, reader.B().Get().Key(key).Cache(), time.Hour).ToString()
		if rueidis.IsRedisNil(err) {
			return ""
		}
		check(err)
		return value
	}
	check(writer.Do(ctx, writer.B().Flushall().Build()).Error())
	rounds := 0
	seconds, err := strconv.Atoi(os.Getenv("SLUICE_CACHE_SECONDS"))
	if err != nil {
		seconds = 4
	}
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); rounds++ {
		key := fmt.Sprintf("cached:%d", rounds%20)
		// In the cache, with the value of before.
		read(key)
		expected := ""
		switch rounds % 7 {
		case 5:
			check(writer.Do(ctx, writer.B().Del().Key(key).Build()).Error())
		case 6:
			check(writer.Do(ctx, writer.B().Flushall().Build()).Error())
		default:
			expected = strconv.Itoa(rounds)
			check(writer.Do(ctx, writer.B().Set().Key(key).Value(expected).Build()).Error())
		}
		for until := time.Now().Add(10 * time.Second); read(key) != expected; {
			if time.Now().After(until) {
				check(fmt.Errorf("%s is stale", key))
			}
		}
	}
	// A cached key is read without a word to the server.
	commands := func() int {
		info, err := writer.Do(ctx, writer.B().Info().Section("stats").Build()).ToString()
		check(err)
		count, err := strconv.Atoi(regexp.MustCompile(`total_commands_processed:(\d+)`).FindStringSubmatch(info)[1])
		check(err)
		return count
	}
	check(writer.Do(ctx, writer.B().Set().Key("quiet").Value("1").Build()).Error())
	read("quiet")
	before := commands()
	for i := 0; i < 100; i++ {
		if read("quiet") != "1" {
			check(fmt.Errorf("another value"))
		}
	}
	if asked := commands() - before; asked >= 20 {
		check(fmt.Errorf("a cached key was asked for %d times", asked))
	}
	version := "of unknown version"
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if module.Path == "github.com/redis/rueidis" {
				version = module.Version
			}
		}
	}
	fmt.Printf("rueidis %s: its cache is never stale, %d changes\n", version, rounds)
}
