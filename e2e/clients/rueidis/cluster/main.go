// What a Go program does with a cluster through rueidis: cluster PORT..., those of three primaries and of their replicas.
package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

var ctx = context.Background()

func check(holds bool, what string, values ...any) {
	if !holds {
		fmt.Println(append([]any{"failed:", what}, values...)...)
		os.Exit(1)
	}
}

func until(what string, holds func() bool) {
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		check(time.Now().Before(end), what)
	}
}

type nodes map[string]rueidis.Client

func (all nodes) do(port string, words ...string) rueidis.RedisResult {
	client := all[port]
	reply := client.Do(ctx, client.B().Arbitrary(words...).Build())
	check(reply.Error() == nil, "a command to a node", port, words, reply.Error())
	return reply
}

func (all nodes) text(port string, words ...string) string {
	reply := all.do(port, words...)
	text, err := reply.ToString()
	check(err == nil, "a text", words, err)
	return text
}

func (all nodes) number(port string, words ...string) int64 {
	reply := all.do(port, words...)
	number, err := reply.AsInt64()
	check(err == nil, "a number", words, err)
	return number
}

func (all nodes) open(slot, source, target string) {
	all.do(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", all.text(source, "CLUSTER", "MYID"))
	all.do(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", all.text(target, "CLUSTER", "MYID"))
}

func (all nodes) close(slot, source, target string) {
	reply := all.do(source, "CLUSTER", "GETKEYSINSLOT", slot, "100")
	keys, err := reply.AsStrSlice()
	check(err == nil, "keys of a slot", err)
	all.do(source, append([]string{"MIGRATE", "127.0.0.1", target, "", "0", "5000", "KEYS"}, keys...)...)
	id := all.text(target, "CLUSTER", "MYID")
	for _, port := range []string{target, source} {
		all.do(port, "CLUSTER", "SETSLOT", slot, "NODE", id)
	}
}

var getCalls = regexp.MustCompile(`cmdstat_get:calls=(\d+)`)

func (all nodes) reads(ports []string) (sum int) {
	for _, port := range ports {
		if found := getCalls.FindStringSubmatch(all.text(port, "INFO", "commandstats")); found != nil {
			count, _ := strconv.Atoi(found[1])
			sum += count
		}
	}
	return sum
}

func connect(options rueidis.ClientOption) rueidis.Client {
	client, err := rueidis.NewClient(options)
	check(err == nil, "a client", err)
	return client
}

func value(client rueidis.Client, key, expected string) {
	found, err := client.Do(ctx, client.B().Get().Key(key).Build()).ToString()
	check(err == nil && found == expected, "GET "+key, found, err)
}

func set(client rueidis.Client, key, value string) {
	err := client.Do(ctx, client.B().Set().Key(key).Value(value).Build()).Error()
	check(err == nil, "SET "+key, err)
}

func main() {
	ports := os.Args[1:]
	primaries, replicas := ports[:3], ports[3:]
	all := nodes{}
	for _, port := range ports {
		all[port] = connect(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:" + port}, ForceSingleClient: true})
	}
	for _, port := range primaries {
		all.do(port, "FLUSHALL")
	}
	seed := []string{"127.0.0.1:" + ports[0]}
	client := connect(rueidis.ClientOption{InitAddress: seed, ShuffleInit: false})
	found := client.Nodes()
	for _, port := range ports {
		check(found["127.0.0.1:"+port] != nil, "a node of the cluster is known", port, found)
	}

	// DoMulti sends what belongs to each node together.
	var appends rueidis.Commands
	for index := range 300 {
		name := "key:" + strconv.Itoa(index)
		set(client, name, name)
		value(client, name, name)
		appends = append(appends, client.B().Append().Key(name).Value("+").Build())
	}
	for index, reply := range client.DoMulti(ctx, appends...) {
		length, err := reply.AsInt64()
		check(err == nil && length == int64(len("key:"+strconv.Itoa(index))+1), "a pipeline over all slots", length, err)
	}
	for _, port := range primaries {
		check(all.number(port, "DBSIZE") > 50, "keys on every node")
	}
	set(client, "{tag}:1", "a")
	set(client, "{tag}:2", "b")
	many, err := client.Do(ctx, client.B().Mget().Key("{tag}:1", "missing{tag}", "{tag}:2").Build()).AsStrSlice()
	check(err == nil && strings.Join(many, ",") == "a,,b", "MGET of a tag", many, err)
	script := rueidis.NewLuaScript("return {redis.call('incrby', KEYS[1], ARGV[1]), redis.call('incr', KEYS[2])}")
	for _, sum := range []int64{5, 10} {
		counts, err := script.Exec(ctx, client, []string{"{s}:1", "{s}:2"}, []string{"5"}).AsIntSlice()
		check(err == nil && counts[0] == sum && counts[1] == sum/5, "a script", counts, err)
	}

	for index := range 6 {
		channel := "channel:" + strconv.Itoa(index)
		until("a message of "+channel, func() bool {
			listening, stop := context.WithTimeout(ctx, 20*time.Second)
			got := make(chan rueidis.PubSubMessage, 1)
			go client.Receive(listening, client.B().Ssubscribe().Channel(channel).Build(), func(message rueidis.PubSubMessage) {
				select {
				case got <- message:
				default:
				}
			})
			until("a subscriber", func() bool {
				count, err := client.Do(ctx, client.B().Spublish().Channel(channel).Message("of "+channel).Build()).AsInt64()
				check(err == nil, "SPUBLISH", err)
				return count == 1
			})
			message := <-got
			stop()
			return message.Channel == channel && message.Message == "of "+channel
		})
	}

	until("replicas", func() bool {
		for at, port := range replicas {
			if all.number(port, "DBSIZE") != all.number(primaries[at], "DBSIZE") {
				return false
			}
		}
		return true
	})
	spread := connect(rueidis.ClientOption{InitAddress: seed, SendToReplicas: func(command rueidis.Completed) bool { return command.IsReadOnly() }})
	before := all.reads(replicas)
	for index := range 300 {
		value(spread, "key:"+strconv.Itoa(index), "key:"+strconv.Itoa(index)+"+")
	}
	check(all.reads(replicas) >= before+300, "reads of replicas")
	spread.Close()

	// A slot on its way, and gone: ASK, then MOVED; and back.
	source, target := primaries[0], primaries[1]
	tag, slot := "", int64(16384)
	for number := 0; slot >= 5461; number++ {
		tag = "{" + strconv.Itoa(number) + "}"
		slot = all.number(source, "CLUSTER", "KEYSLOT", tag)
	}
	text := strconv.FormatInt(slot, 10)
	set(client, tag+":here", "1")
	set(client, tag+":gone", "2")
	all.open(text, source, target)
	all.do(source, "MIGRATE", "127.0.0.1", target, tag+":gone", "0", "5000")
	set(client, tag+":new", "3")
	check(all.number(target, "CLUSTER", "COUNTKEYSINSLOT", text) == 2, "a key that was set by ASK")
	look := func() {
		for at, name := range []string{"here", "gone", "new"} {
			value(client, tag+":"+name, strconv.Itoa(at+1))
		}
	}
	look()
	all.close(text, source, target)
	look()
	all.open(text, target, source)
	look()
	all.close(text, target, source)
	look()
	client.Close()
	version := "of unknown version"
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if module.Path == "github.com/redis/rueidis" {
				version = module.Version
			}
		}
	}
	fmt.Printf("rueidis %s: a cluster works\n", version)
}
