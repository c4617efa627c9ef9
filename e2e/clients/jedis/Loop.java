// Reads and writes of a Java program while its cluster changes, through Jedis: java Loop MODE PORT...; the head of xtask/src/loops.rs says more.
import java.util.HashSet;
import java.util.Set;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClusterClient;

public class Loop {
    public static void main(String[] arguments) throws Exception {
        Set<HostAndPort> nodes = new HashSet<>();
        for (int at = 1; at < arguments.length; at++) {
            nodes.add(new HostAndPort("127.0.0.1", Integer.parseInt(arguments[at])));
        }
        RedisClusterClient client = RedisClusterClient.builder().nodes(nodes).build();
        Workers.run(new Workers.Client() {
            @Override
            public void set(String key, String value) {
                client.set(key, value);
            }

            @Override
            public String get(String key) {
                return client.get(key);
            }

            @Override
            public void del(String key) {
                client.del(key);
            }
        }, "jedis", "of pom.xml");
    }
}
