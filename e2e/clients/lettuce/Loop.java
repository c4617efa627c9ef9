// Reads and writes of a Java program while its cluster changes, through Lettuce: java Loop MODE PORT...; the head of xtask/src/loops.rs says more.
import io.lettuce.core.MaintNotificationsConfig;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

public class Loop {
    public static void main(String[] arguments) throws Exception {
        List<RedisURI> nodes = new ArrayList<>();
        for (int at = 1; at < arguments.length; at++) {
            RedisURI node = RedisURI.create("127.0.0.1", Integer.parseInt(arguments[at]));
            if (arguments[0].equals("tuned")) {
                node.setTimeout(Duration.ofSeconds(1));
            }
            nodes.add(node);
        }
        RedisClusterClient cluster = RedisClusterClient.create(nodes);
        if (arguments[0].equals("quiet")) {
            ClusterClientOptions.Builder options = ClusterClientOptions.builder();
            options.maintNotificationsConfig(MaintNotificationsConfig.disabled());
            cluster.setOptions(options.build());
        }
        if (arguments[0].equals("tuned")) {
            Duration second = Duration.ofSeconds(1);
            ClusterTopologyRefreshOptions refresh = ClusterTopologyRefreshOptions.builder().enablePeriodicRefresh(second).build();
            cluster.setOptions(ClusterClientOptions.builder().topologyRefreshOptions(refresh).build());
        }
        RedisAdvancedClusterCommands<String, String> client = cluster.connect().sync();
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
        }, "lettuce", "of pom.xml");
    }
}
